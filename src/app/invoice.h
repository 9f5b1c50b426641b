/* invoice.h: from a closed statement to a document that a buyer can book (money.md section 3,
 * "Invoices proper"). Only what was paid in cash and consumed is invoiced: vouchers and gifts are
 * credits of the statement already, and a month that is still owed waits. A number is given once,
 * without gaps in its series (INV-<currency>-<year>, credit notes CRN-…), and the document is kept
 * word for word. Inside the caller's transaction, core thread except what says "reader". */
#pragma once

#include "app/close.h"

/* Issues the invoice of a closed month; the one that is there already when it was not taken back as
 * a mistake. ERR_MONTH_OPEN, ERR_INVOICE_EMPTY (nothing was paid), ERR_INVOICE_UNPAID (owed),
 * ERR_PROFILE (field), ERR_TAX_CHANGED (the buyer's tax treatment is another now: preview tax must
 * be final tax). */
enum err invoice_issue(struct store *s, utime_t now, struct id project, const struct period *month,
                       struct invoice_row *ret_r, struct refusal *why);

/* "mistake": the whole invoice is taken back, no money moves, the month can be invoiced again.
 * "refunded": the money went back before; only the tax is set right.
 * "return", "service-ended", "allowance": the amount (minor units of the currency; 0: all that is
 * left) goes back to the wallet, its net from the revenue, its tax from the tax account.
 * ERR_NOT_FOUND, ERR_VALIDATION (reason, amount), ERR_STATE (nothing is left). */
enum err invoice_take_back(struct store *s, utime_t now, const char *number, const char *reason,
                           int64_t amount_minor, struct invoice_row *ret_r, struct refusal *why);

/* Minor units of an invoice that no credit note took back. Reader. */
enum err invoice_rest(struct store *s, const struct invoice_row *r, int64_t *ret_minor);

/* ---- the neutral document: what gateways and the renderer read; docs in guide "invoices" */

/* Writes the document of an invoice or credit note. taxes: parallel to the statement's groups, for
 * a credit note with the amounts that are taken back (below zero). */
enum err invoice_document_write(struct store *s, const struct invoice_row *r,
                                const struct statement_row *st,
                                const struct statement_tax_list *groups,
                                const struct invoice_tax_row *taxes, struct strbuf *out);
/* The same as XML: one element per member, lists as repeated elements. ERR_CORRUPT: no document. */
enum err invoice_xml(const char *document, struct strbuf *out, struct refusal *why);
