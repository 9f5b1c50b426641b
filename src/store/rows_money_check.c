/* rows_money_check.c: laws of the books as queries that must find nothing. */
#include "store/rows_money.h"

#include "store/sql.h"

const struct money_law money_laws[] = {
    {"I4", "SELECT 'head of day '||d.day FROM ledger_day d LEFT JOIN transfer t ON t.seq=d.seq "
           "WHERE t.hash IS NULL OR t.hash<>d.hash ORDER BY d.day LIMIT 1"},
    /* what a hold posts leaves its project's terms account in the same group */
    {"I7", "SELECT grp FROM transfer WHERE dr LIKE 'terms.%' OR (cr LIKE 'terms.%' AND step=2) "
           "GROUP BY grp HAVING sum(CASE WHEN dr LIKE 'terms.%' THEN amount ELSE -amount END)<>0 "
           "LIMIT 1"},
    {"I9", "SELECT u.node||' '||u.boot||' '||u.seq FROM usage_slice u JOIN usage_boot b "
           "ON b.node=u.node AND b.boot=u.boot WHERE u.done=0 AND u.seq<=b.ack_seq LIMIT 1"},
    {"I10", "SELECT subject||' second '||from_s||' twice' FROM (SELECT w.subject, s.from_s, "
            "lag(s.to_s) OVER (PARTITION BY w.subject, w.meter=6 ORDER BY s.from_s, s.to_s) AS before "
            "FROM usage_span s JOIN rating_window w ON w.id=s.rating_window WHERE w.meter NOT IN (5,7)) "
            "WHERE before>from_s LIMIT 1"},
    /* a node is had alone exactly while its cards are charged, one at a time */
    {"I10", "SELECT l.lease FROM fund_lease l LEFT JOIN (SELECT u.lease, sum(CASE w.meter WHEN 6 "
            "THEN s.qty ELSE 0 END) AS node, sum(CASE w.meter WHEN 0 THEN s.to_s-s.from_s ELSE 0 "
            "END) AS cards FROM usage_span s JOIN rating_window w ON w.id=s.rating_window JOIN "
            "usage_slice u ON u.node=s.node AND u.boot=s.boot AND u.seq=s.seq WHERE w.meter IN "
            "(0,6) AND s.boot<>'' GROUP BY u.lease) t ON t.lease=l.lease WHERE "
            "coalesce(t.node,0)<>CASE l.exclusive WHEN 1 THEN coalesce(t.cards,0) ELSE 0 END "
            "LIMIT 1"},
    {"I10", "SELECT 'no evidence for '||s.rating_window||' '||s.from_s FROM usage_span s "
            "LEFT JOIN usage_slice u ON u.node=s.node AND u.boot=s.boot AND u.seq=s.seq "
            "WHERE s.boot<>'' AND (u.seq IS NULL OR u.done=0 OR u.running=0 "
            "OR s.from_s<>s.to_s AND s.qty_per_s>0 AND s.to_s*1000>u.t1_ms) LIMIT 1"},
    {"I11", "SELECT w.subject||' '||w.year||'-'||w.month FROM usage_span s JOIN rating_window w "
            "ON w.id=s.rating_window WHERE w.meter IN (0,1,6) GROUP BY w.subject, w.meter=6, w.year, w.month "
            "HAVING sum(s.to_s-s.from_s)>31*86400+3600 LIMIT 1"},
    {"I12", "SELECT w.id FROM rating_window w LEFT JOIN (SELECT rating_window, sum(qty) AS q FROM "
            "usage_span GROUP BY rating_window) s ON s.rating_window=w.id "
            "WHERE coalesce(s.q,0)<>w.qty LIMIT 1"},
    {"I13", "SELECT t.id FROM transfer t LEFT JOIN rating_window w ON w.id=t.owner "
            "WHERE t.kind='charge' AND t.step=0 AND w.id IS NULL LIMIT 1"},
    {"I13", "SELECT w.id FROM rating_window w LEFT JOIN (SELECT owner, sum(amount) AS u FROM "
            "transfer WHERE kind='charge' AND step=0 GROUP BY owner) t ON t.owner=w.id "
            "WHERE coalesce(t.u,0)<>w.posted_u LIMIT 1"},
    {"I13", "SELECT w.id FROM rating_window w JOIN fund_lease l ON l.lease=w.lease "
            "WHERE l.settled=1 AND w.rated_u<>w.posted_u LIMIT 1"},
    {"I14", "SELECT node||' '||boot||' '||seq FROM usage_slice "
            "WHERE t1_ms>received_ms OR t0_ms>t1_ms LIMIT 1"},
    {"I15", "SELECT id FROM rating_window WHERE rated_u<0 OR posted_u<0 OR qty<0 LIMIT 1"},
    /* what is given back of a window is in the journal, and it was a spot run's cards */
    {"I15", "SELECT w.id FROM rating_window w LEFT JOIN (SELECT owner, sum(amount) AS u FROM "
            "transfer WHERE kind='reversal' GROUP BY owner) t ON t.owner=w.id WHERE "
            "coalesce(t.u,0)>w.posted_u OR (w.reversed_u<>0 AND (coalesce(t.u,0)<>w.reversed_u OR "
            "w.meter<>0 OR substr(w.sku,1,5)<>'spot.')) LIMIT 1"},
    /* … given back exactly when the platform took it back within its free time */
    {"I15", "SELECT w.id FROM fund_lease l JOIN rating_window w ON w.lease=l.lease "
            "LEFT JOIN reclaim r ON r.lease=l.lease WHERE l.settled=1 AND w.meter=0 AND "
            "w.posted_u>0 AND (w.reversed_u<>0)<>(r.lease IS NOT NULL AND "
            "min(l.stop_ms/1000, l.paid_until_s)-(l.ready_ms+999)/1000<=r.free_within_s) LIMIT 1"},
    {"I17", "SELECT u.lease||' '||s.from_s||'-'||s.to_s FROM usage_span s JOIN usage_slice u "
            "ON u.node=s.node AND u.boot=s.boot AND u.seq=s.seq JOIN fund_lease l "
            "ON l.lease=u.lease WHERE s.boot<>'' AND s.qty_per_s>0 AND (s.to_s>l.paid_until_s OR "
            "s.to_s*1000>l.stop_ms OR s.from_s*1000<l.ready_ms) LIMIT 1"},
    {"I15", "SELECT p.transfer FROM hold_part p JOIN fund_grant g ON p.account='voucher.'||g.id "
            "WHERE p.until_s>g.expires_s OR (g.scope<>0 AND p.meter<>-1 AND "
            "(g.scope & (1<<p.meter))=0) LIMIT 1"},
    {"I15", "SELECT t.id FROM transfer t JOIN fund_grant g ON t.dr='voucher.'||g.id "
            "JOIN rating_window w ON w.id=t.owner WHERE t.kind='charge' AND t.step=0 AND "
            "(t.effective_ms>g.expires_s*1000 OR (g.scope<>0 AND (g.scope & (1<<w.meter))=0) OR "
            "(g.sku<>'' AND g.sku<>w.sku)) LIMIT 1"},
    /* a grant that is over is empty, and its account got what was granted, once */
    {"I15", "SELECT g.id FROM fund_grant g LEFT JOIN account a ON a.id='voucher.'||g.id WHERE "
            "a.cr_posted IS NULL OR a.cr_posted<>g.amount_u+coalesce((SELECT sum(amount) FROM "
            "transfer t WHERE t.cr=a.id AND t.kind='reversal'),0) OR (g.done_at<>0 AND "
            "(a.dr_posted<>a.cr_posted OR a.dr_pending<>0)) LIMIT 1"},
    /* what a package holds was bought, used by windows at its price, lapsed or still there */
    {"I3", "SELECT p.id FROM package p LEFT JOIN account a ON a.id='package.'||p.id WHERE "
           "a.id IS NULL OR a.ledger<>'card-seconds' OR a.cr_posted<>p.seconds OR "
           "a.dr_posted+a.dr_pending>p.seconds OR a.dr_posted-p.lapsed+coalesce((SELECT sum(used) "
           "FROM package_part k WHERE k.package=p.id),0)<>coalesce((SELECT sum(w.qty) FROM "
           "rating_window w WHERE w.project=p.project AND w.price=p.price),0) LIMIT 1"},
    {"I10", "SELECT s.rating_window||' '||s.from_s||' outside its package' FROM package p JOIN "
            "rating_window w ON w.project=p.project AND w.price=p.price JOIN usage_span s ON "
            "s.rating_window=w.id WHERE s.from_s<p.start_s OR s.to_s>p.expires_s LIMIT 1"},
    {"I19", "SELECT t.id FROM transfer t LEFT JOIN package_part k ON k.transfer=t.id LEFT JOIN "
            "fund_lease l ON l.lease=k.lease AND l.settled=0 WHERE t.step=1 AND "
            "t.ledger='card-seconds' AND l.lease IS NULL AND NOT EXISTS (SELECT 1 FROM transfer r "
            "WHERE r.pending=t.id AND r.pending<>'') LIMIT 1"},
    {"I19", "SELECT k.transfer FROM package_part k LEFT JOIN transfer t ON t.id=k.transfer WHERE "
            "t.id IS NULL OR t.amount<>k.amount OR t.dr<>'package.'||k.package OR EXISTS (SELECT 1 "
            "FROM transfer r WHERE r.pending=t.id AND r.pending<>'') LIMIT 1"},
    {"I25", "SELECT p.id FROM package p LEFT JOIN account a ON a.id='deferred.'||p.id WHERE "
            "coalesce(a.cr_posted-a.dr_posted,0)<>p.paid_u-p.recognised_u-p.lapsed_u OR "
            "(p.done_at<>0 AND p.recognised_u+p.lapsed_u<>p.paid_u) LIMIT 1"},
    /* what was paid for a plan is earned, given back or still deferred */
    {"I25", "SELECT p.id FROM plan p LEFT JOIN account a ON a.id='deferred.'||p.id WHERE "
            "coalesce(a.cr_posted-a.dr_posted,0)<>p.paid_u-p.recognised_u-p.refunded_u LIMIT 1"},
    {"I25", "SELECT p.id FROM purchase p LEFT JOIN (SELECT owner, sum(amount) AS u FROM transfer "
            "WHERE kind='purchase' GROUP BY owner) t ON t.owner=p.id WHERE coalesce(t.u,0)<>"
            "p.voucher_u+p.gift_u+p.cash_u+p.credit_u LIMIT 1"},
    {"I25", "SELECT p.id FROM purchase p LEFT JOIN (SELECT owner, sum(amount) AS u FROM transfer "
            "WHERE kind IN ('back','lapse') GROUP BY owner) t ON t.owner=p.id WHERE "
            "coalesce(t.u,0)<>p.back_gift_u+p.back_cash_u+p.back_credit_u+p.lapsed_u LIMIT 1"},
    /* money goes back to a channel at most as it came from there */
    {"I25",
     "SELECT o.id FROM topup_order o LEFT JOIN (SELECT owner, sum(amount) AS u FROM transfer "
     "WHERE kind='refund' GROUP BY owner) t ON t.owner=o.id WHERE "
     "coalesce(t.u,0)<>o.refunded_u OR (o.state<>1 AND o.refunded_u<>0) LIMIT 1"},
    {"I28", "SELECT o.id FROM topup_order o LEFT JOIN transfer t ON t.id='topup.'||o.id LEFT JOIN "
            "fx_order x ON x.order_id=o.id WHERE (o.state=1 AND (t.amount IS NULL OR "
            "t.amount<>coalesce(x.dst_u,o.amount_u) OR t.dr<>coalesce('fx.'||x.dst,"
            "'clearing.'||o.channel||'.'||o.currency))) OR (o.state<>1 AND t.id IS NOT NULL) "
            "LIMIT 1"},
    /* what left clearing for an exchange is the whole order, and what came in its floor */
    {"I8", "SELECT x.order_id FROM fx_order x JOIN topup_order o ON o.id=x.order_id WHERE "
           "x.fee_u+x.converted_u<>o.amount_u OR (o.state=1 AND (SELECT sum(amount) FROM transfer "
           "t WHERE t.owner=o.id AND t.kind='fx' AND t.dr='clearing.'||o.channel||'.'||o.currency)"
           "<>o.amount_u) LIMIT 1"},
    /* clearing is what no file has shown yet, suspense what nobody can name */
    {"I28", "SELECT 'clearing of '||k.channel||' '||k.currency FROM (SELECT DISTINCT channel, "
            "currency FROM topup_order) k LEFT JOIN account a ON a.id='clearing.'||k.channel||'.'||"
            "k.currency WHERE coalesce(a.dr_posted-a.cr_posted,0)<>coalesce((SELECT "
            "sum(amount_u-refunded_u) FROM topup_order o WHERE o.channel=k.channel AND "
            "o.currency=k.currency AND o.state=1),0)-coalesce((SELECT sum(CASE l.kind WHEN 0 THEN "
            "amount_u ELSE -amount_u END) FROM payment_line l WHERE l.channel=k.channel AND "
            "l.currency=k.currency AND l.state=0),0) LIMIT 1"},
    {"I28", "SELECT 'suspense of '||k.channel||' '||k.currency FROM (SELECT DISTINCT channel, "
            "currency FROM payment_line) k LEFT JOIN account a ON a.id='suspense.'||k.channel||'.'"
            "||k.currency WHERE coalesce(a.cr_posted-a.dr_posted,0)<>coalesce((SELECT sum(CASE "
            "l.kind WHEN 0 THEN amount_u ELSE -amount_u END) FROM payment_line l WHERE "
            "l.channel=k.channel AND l.currency=k.currency AND l.state=1),0) LIMIT 1"},
    {"I28", "SELECT t.id FROM transfer t LEFT JOIN topup_order o ON t.id='topup.'||o.id "
            "WHERE t.kind='topup' AND t.dr LIKE 'clearing.%' AND o.id IS NULL LIMIT 1"},
    {"I19", "SELECT p.id FROM transfer p LEFT JOIN hold_part h ON h.transfer=p.id "
            "LEFT JOIN fund_lease l ON l.lease=h.lease AND l.settled=0 "
            "WHERE p.step=1 AND p.ledger<>'card-seconds' AND l.lease IS NULL AND NOT EXISTS "
            "(SELECT 1 FROM transfer r "
            "WHERE r.pending=p.id AND r.pending<>'') LIMIT 1"},
    {"I19", "SELECT h.transfer FROM hold_part h LEFT JOIN transfer p ON p.id=h.transfer WHERE "
            "p.id IS NULL OR p.amount<>h.amount_u OR p.dr<>h.account OR EXISTS (SELECT 1 "
            "FROM transfer r WHERE r.pending=p.id AND r.pending<>'') LIMIT 1"},
    {"I19",
     "SELECT l.lease FROM fund_lease l LEFT JOIN (SELECT lease, sum(amount_u) AS u FROM "
     "hold_part GROUP BY lease) h ON h.lease=l.lease WHERE coalesce(h.u,0)<>"
     "CASE WHEN l.settled=1 THEN 0 ELSE l.hold_u END OR (l.hold<>'')<>(h.u IS NOT NULL) LIMIT 1"},
    {"I19", "SELECT l.lease FROM fund_lease l WHERE l.settled=0 AND coalesce((SELECT sum(used_u) "
            "FROM hold_part h WHERE h.lease=l.lease),0)<>coalesce((SELECT sum(rated_u-posted_u) "
            "FROM rating_window w WHERE w.project=l.project AND w.lease=l.lease AND "
            "rated_u<>posted_u),0) LIMIT 1"},
    {"I26", "SELECT source FROM supplier_gross WHERE shared_u<>"
            "gross_u/share_d*share_n+gross_u%share_d*share_n/share_d LIMIT 1"},
    {"I26", "SELECT g.source FROM supplier_gross g WHERE shared_u<>coalesce((SELECT "
            "sum(CASE kind WHEN 'share' THEN amount ELSE -amount END) FROM transfer t "
            "WHERE t.owner=g.source AND t.kind IN ('share','share_back')),0) LIMIT 1"},
    {"I26", "SELECT 'held of '||x.id||' '||c.currency FROM supplier x JOIN (SELECT DISTINCT "
            "supplier, currency FROM supplier_gross) c ON c.supplier=x.id LEFT JOIN account a ON "
            "a.id='provider.'||x.id||'.held.'||c.currency WHERE coalesce(a.cr_posted-a.dr_posted,0)"
            "<>coalesce((SELECT sum(held_u) FROM supplier_day d WHERE d.supplier=x.id AND "
            "d.currency=c.currency AND d.released=0),0) LIMIT 1"},
    {"I26", "SELECT 'payouts of '||p.supplier FROM payout p LEFT JOIN transfer t ON t.id=p.id "
            "WHERE t.amount IS NULL OR t.amount<>p.amount_u OR t.kind<>'payout' LIMIT 1"},
};
const size_t money_law_count = ARRAY_LEN(money_laws);

enum err money_law_check(struct store *s, const struct money_law *law, char *ret_text, size_t size)
{
    struct sql q = sql_open(s, law->sql, "");

    ret_text[0] = '\0';
    if (sql_next(&q) && !str_copy(ret_text, size, sql_text(&q, 0)))
        (void)str_copy(ret_text, size, "a row");
    return sql_close(&q);
}
