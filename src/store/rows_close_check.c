/* rows_close_check.c: laws of closed months and invoices as queries that must find nothing. */
#include "store/rows_close.h"

const struct money_law close_laws[] = {
    {"I20", "SELECT s.number||': lines '||coalesce(l.p,0)||' groups '||coalesce(g.b,0)||' of '||"
            "s.lines_minor FROM statement s LEFT JOIN (SELECT statement, sum(printed_minor) AS p, "
            "count(*) AS n, min(n) AS a, max(n) AS z FROM statement_line GROUP BY statement) l "
            "ON l.statement=s.id LEFT JOIN (SELECT statement, sum(base_minor) AS b, "
            "sum(net_minor) AS net, sum(tax_minor) AS tax, sum(gross_minor) AS gross "
            "FROM statement_tax GROUP BY statement) g ON g.statement=s.id "
            "WHERE coalesce(l.p,0)<>s.lines_minor OR coalesce(g.b,0)<>s.lines_minor OR "
            "coalesce(l.n,0)<>s.line_count OR l.a<>1 OR l.z<>l.n OR g.net<>s.net_minor OR "
            "g.tax<>s.tax_minor OR g.gross<>s.payable_minor LIMIT 1"},
    {"I20", "SELECT statement||' line '||n FROM statement_line l JOIN statement s ON "
            "s.id=l.statement WHERE abs(l.printed_minor*s.minor_u-l.amount_u)>=s.minor_u LIMIT 1"},
    {"I20", "SELECT i.number FROM invoice i LEFT JOIN (SELECT invoice, sum(net_minor) AS net, "
            "sum(tax_minor) AS tax, sum(gross_minor) AS gross FROM invoice_tax GROUP BY invoice) t "
            "ON t.invoice=i.number WHERE coalesce(t.net,0)<>i.net_minor OR "
            "coalesce(t.tax,0)<>i.tax_minor OR coalesce(t.gross,0)<>i.payable_minor LIMIT 1"},
    {"I20", "SELECT i.number||' of '||s.number FROM invoice i JOIN statement s ON s.id=i.statement "
            "WHERE i.kind=0 AND (i.net_minor<>s.net_minor OR i.tax_minor<>s.tax_minor OR "
            "i.payable_minor<>s.payable_minor) LIMIT 1"},
    {"I20", "SELECT i.number||' credited beyond its amount' FROM invoice i JOIN invoice c ON "
            "c.prev=i.number AND c.prev<>'' GROUP BY i.number "
            "HAVING i.payable_minor+sum(c.payable_minor)<0 LIMIT 1"},
    {"I21", "SELECT s.number||': lines '||coalesce(l.u,0)||' of '||s.total_u FROM statement s "
            "LEFT JOIN (SELECT statement, sum(amount_u) AS u FROM statement_line "
            "GROUP BY statement) l ON l.statement=s.id "
            "WHERE coalesce(l.u,0)<>s.total_u LIMIT 1"},
    {"I21", "SELECT s.number||': '||t.kind FROM statement s LEFT JOIN (SELECT owner, "
            "sum(CASE WHEN kind='residue' THEN amount ELSE 0 END) AS r, "
            "sum(CASE WHEN kind='tax' THEN amount ELSE 0 END) AS x, max(kind) AS kind "
            "FROM transfer WHERE kind IN ('residue','tax') AND owner LIKE 'st.%' GROUP BY owner) t "
            "ON t.owner=s.id WHERE coalesce(t.r,0)<>s.residue_u OR coalesce(t.x,0)<>"
            "coalesce((SELECT sum(max(tax_minor,0)) FROM statement_tax g WHERE "
            "g.statement=s.id),0)*s.minor_u LIMIT 1"},
    /* what the journal charged for a closed month is in its statement or in a later month's */
    {"I21", "SELECT w.id||': rated '||w.rated_u FROM close_state c JOIN rating_window w ON "
            "w.project=c.project AND w.year*12+w.month<c.year*12+c.month WHERE w.rated_u-w.reversed_u<>"
            "(SELECT coalesce(sum(amount_u),0) FROM statement_line WHERE source=w.id)+"
            "(SELECT coalesce(sum(l.amount_u),0) FROM late_usage l WHERE l.rating_window=w.id AND "
            "l.year*12+l.month>=c.year*12+c.month) LIMIT 1"},
    {"I22", "SELECT project||' '||year||'-'||month FROM (SELECT project, year, month, from_s, to_s,"
            " lag(to_s) OVER w AS before_s, lag(year*12+month) OVER w AS before FROM statement "
            "WINDOW w AS (PARTITION BY project ORDER BY year, month)) WHERE from_s>=to_s OR "
            "before_s>from_s OR (before=year*12+month-1 AND before_s<>from_s) LIMIT 1"},
    {"I22", "SELECT s.number FROM statement s LEFT JOIN close_state c ON c.project=s.project "
            "WHERE c.until_s IS NULL OR s.to_s>c.until_s OR "
            "s.closed_ms<(s.to_s+72*3600)*1000 LIMIT 1"},
    {"I23", "SELECT 'series '||series FROM (SELECT series, seq FROM statement UNION ALL SELECT "
            "series, seq FROM invoice) GROUP BY series HAVING count(*)<>max(seq) OR min(seq)<>1 "
            "LIMIT 1"},
    {"I23", "SELECT number||' is not closed' FROM statement WHERE closed<>1 LIMIT 1"},
    {"I23", "SELECT 'a guard of closed rows is gone' WHERE (SELECT count(*) FROM sqlite_master "
            "WHERE type='trigger' AND tbl_name IN ('statement','statement_line','statement_tax',"
            "'invoice','invoice_tax','invoice_gateway'))<>14"},
};
const size_t close_law_count = ARRAY_LEN(close_laws);
