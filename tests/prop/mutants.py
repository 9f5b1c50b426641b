#!/usr/bin/env python3
"""P16: each planted mistake in the money path must be found by a golden row, a law or a unit test.

mutants.py BUILD [FILE...]: compiles one changed file at a time with the build's own flags, links the
money tests against it and runs them until one fails, the likeliest first; FILE: only its mutants, such as
src/app/fx.c. Prints TAP."""
import concurrent.futures, json, os, shlex, subprocess, sys, tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(sys.argv[1])
D, A, S = "src/domain/", "src/app/", "src/store/"
# (file, what stands there, what the mistake makes of it, what the mistake is)
MUTANTS = [
    (D + "rate.c", "u = tier_sum(r, q) / (uint64_t)r->d;",
     "u = (tier_sum(r, q) + (uint64_t)r->d / 2) / (uint64_t)r->d;", "rating rounds instead of flooring"),
    (D + "rate.c", "*ret_u = after - before;", "(void)before; (void)after; return rate_total(r, b - a, ret_u);",
     "each slice is floored alone"),
    (D + "rate.c", "(((wide)budget_u + 1) * (uint64_t)r->d - 1)", "((wide)budget_u * (uint64_t)r->d)",
     "affordable seconds lose the last one"),
    (D + "rate.c", "wide rest = MIN(tier_sum(r, q % r->cap_qty) / (uint64_t)r->d, (wide)r->cap_u);",
     "wide rest = tier_sum(r, q % r->cap_qty) / (uint64_t)r->d;", "the cap forgets the last day"),
    (D + "rate.c", "if (u > INT64_MAX)", "if (u > (wide)INT64_MAX * 2)", "an overflow goes unseen"),
    (D + "money.c", "if (product % d < 0)", "if (product % d > 0)", "negative quotients round up"),
    (D + "money.c", "} else if (*s != '0') {", "} else if (*s == 'x') {", "a seventh decimal is dropped"),
    (D + "meter.c", "return same ? METER_DUPLICATE : METER_CONFLICT;", "(void)same; return METER_DUPLICATE;",
     "another payload under a known key passes as a repeat"),
    (D + "meter.c", "if (!known)", "if (true || !known)", "the key check is dropped"),
    (D + "meter.c", "ret_gain->from_s = *cursor_s;", "ret_gain->from_s = s->t0_s;",
     "overlapping seconds are billed twice"),
    (D + "meter.c", "if (s->t0_s > *cursor_s) {", "if (false && s->t0_s > *cursor_s) {", "a gap is billed over"),
    (D + "meter.c", "if (s->voided)", "if (false && s->voided)", "void seconds are billed"),
    (D + "meter.c", "+ (ready_ms % MS_PER_S != 0)", "", "the first second is rounded down"),
    (D + "meter.c", "MIN(node_delta_ms, own_delta_ms + METER_TOLERANCE_MS)", "node_delta_ms",
     "the node's word is taken"),
    (D + "meter.c", "[INSTANCE_UNREACHABLE] = {false, false, FREE, FREE}",
     "[INSTANCE_UNREACHABLE] = {true, false, FREE, METER_DISK}", "an unreachable node goes on charging"),
    (D + "term.c", "if (s < t.length_s) {\n            t.length_s = s;\n            t.limit = TERM_BY_BUDGET;",
     "if (s < t.length_s) {\n            t.limit = TERM_BY_BUDGET;", "a budget does not shorten the term"),
    (D + "term.c", "if (used_u < 0 || used_u > hold_u)", "if (used_u < 0)", "more is posted than was held"),
    (D + "term.c", "MIN(whole_s, TERM_GATE_COMPUTE_S)", "whole_s", "the gate wants the whole time"),
    (D + "budget.c", "MAX(u, m[i].held_u)", "u", "a joint end forgets what a member holds"),
    (D + "budget.c", "MIN(until_s, m[i].ends_at_s)", "until_s", "a joint end forgets a member's own"),
    (D + "budget.c", "__builtin_add_overflow(b->posted_u, b->pending_u, &committed)",
     "__builtin_add_overflow(b->posted_u, 0, &committed)", "a budget forgets what is held"),
    (D + "ledger.c", "if (!pending && overdrawn(dr)) {", "if (false && overdrawn(dr)) {", "overdrafts pass"),
    (D + "ledger.c", "*ret_pending = -hold;\n        return;\n    case LEDGER_VOID:",
     "*ret_pending = -t->amount;\n        return;\n    case LEDGER_VOID:", "the rest of a hold stays held"),
    (D + "ledger.c", "if (resolves(v->existing, v->existing_count, t->pending) ||",
     "if (false ||", "a hold is resolved twice"),
    (D + "ledger.c", "while (i-- > 0)\n                take_back", "while (false)\n                take_back",
     "half a group stays"),
    (D + "ledger.c", "if (known > 0 && known < n)", "if (false && known < n)", "half a group is replayed"),
    (D + "ledger.c", "if (memcmp(a, b, sizeof(a)) != 0)", "if (false)", "another content under a known id passes"),
    (D + "ledger.c", "add_i64(&h, booked_ms);", "", "the chain does not cover the booking time"),
    (D + "ledger_check.c", "return broken(why, \"I2\", stored->id,", "(void)broken(why, \"I2\", stored->id,",
     "the proof does not look at balances"),
    (D + "ledger_check.c", "memcmp(t->hash, hash, LEDGER_HASH_SIZE) != 0", "false", "the proof does not look at the chain"),
    (D + "price.c", "if (!rate_rises(&cur->rate, &j->rate))", "if (false)", "a cut waits for notice"),
    (D + "price.c", "return MAX(noticed, j->valid_from_s);", "return j->valid_from_s;", "a rise binds at once"),
    (D + "price.c", "if (bid.d > 0 && price_cheaper(bid, part.price))", "if (false)", "the bid is no cap"),
    (D + "calendar.c", "c.day = MIN(c.day, calendar_month_days(c.year, c.month));",
     "c.day = MIN(c.day, 28);", "the anchor is not kept"),
    (D + "zone.c", "if (passed == z->time_count && z->has_rule)", "if (false)", "the footer's rule is ignored"),
    (D + "zone.c", "if (start <= t_s && start >= last)", "if (start < t_s && start >= last)", "summer time a second late"),
    (D + "bill.c", "return x->remainder > y->remainder ? -1 : 1;", "return x->remainder < y->remainder ? -1 : 1;",
     "the smallest remainder gets the rest"),
    (D + "bill.c", "give_rest(scratch, n, t.payable_minor - floors, ret_minor);", "(void)floors;",
     "printed lines do not add up"),
    (D + "bill.c", "if (received_s >= closed_s) {", "if (false) {", "a closed month is changed"),
    (D + "tax.c", "+ (uint64_t)d) / (2 *", ") / (2 *", "tax is floored"),
    (D + "tax.c", "g.tax_minor = g.gross_minor - g.net_minor;",
     "TRY(tax_half_up(g.net_minor, rate.n, rate.d, &g.tax_minor));", "inclusive tax is rounded on its own"),
    (D + "voucher.c", "v[i].expires_s <= at_s ||", "", "an expired voucher pays"),
    (D + "voucher.c", "return a_deducts > b_deducts;", "return a_deducts < b_deducts;", "the order of vouchers turns"),
    (D + "voucher.c", "|| !voucher_covers(&v[i], meter)", "", "scopes are ignored"),
    (D + "refund.c", "MIN(paid.voucher_u, consumed_u)", "0", "vouchers are refunded"),
    (D + "refund.c", "c.consumed_u = MIN(sum, paid_u);", "c.consumed_u = sum;", "a clawback passes what was paid"),
    (D + "payout.c", "*ret_carried_u = pays ? 0 : due;", "*ret_carried_u = 0;", "what is below the threshold is lost"),
    (D + "payout.c", "TRY(payout_total(shares, n, b_u, after));",
     "TRY(payout_total(shares, n, b_u > a_u ? b_u - a_u : 0, after));\n    memset(before, 0, sizeof(before));",
     "shares are floored slice by slice"),
    (D + "price.c", "        cur = next;\n        now = at;", "        cur = next;\n        now = started_s;",
     "a preview forgets what it waited for"),
    (D + "plan.c", "|| used >= total)", "|| false)", "a clawback gives back after the end"),
    (D + "plan.c", "t->fee_pct, 100,", "t->fee_pct, 1000,", "the fee is a tenth of what was said"),
    (D + "rate_text.c", "    r.cap_qty = cap_qty;", "    r.cap_qty = 0;", "a stored cap is forgotten"),
    (D + "price.c", "micro_add(u, 2, ret_u)", "micro_add(u, 0, ret_u)", "a spot second is held without its rounding"),
    (D + "price.c", "ended_by_platform && to_s - from_s <= free_within_s", "ended_by_platform && to_s - from_s < free_within_s",
     "the last free second is charged"),
    (D + "price.c", "return ended_by_platform && to_s", "return to_s", "who ends a run does not count"),
    (A + "funds_reverse.c", "add_back(b, w, group, s->cr, s->dr, u, g);", "add_back(b, w, group, s->cr, cash, u, g);",
     "what a voucher paid comes back as cash"),
    (A + "funds_reverse.c", "w->reversed_u = w->posted_u;", "w->reversed_u = 0;", "nobody notes what was given back"),
    (A + "funds_reverse.c", "g.done_at = 0;", "", "what comes back to a lapsed voucher is forgotten"),
    (A + "funds_reverse.c", "day.from_s, -u);", "day.from_s, 0);", "budgets go on counting what was given back"),
    (A + "funds_reverse.c", "l->lease, METER_GPU, &windows", "l->lease, METER_DISK, &windows", "cards are not given back"),
    (A + "funds_reverse.c", "MIN(u, MAX(-ledger_balance(&a), (int64_t)0))", "u", "a credit line paid back twice is overfull"),
    (A + "funds_rate.c", "    ret_r->qty_per_s = 1;\n", "", "having a node alone is paid once a card"),
    (A + "funds_rate.c", "    if (!l->exclusive)\n        return false;", "    if (l->lease.s[0])\n        return false;", "a node alone costs nothing"),
    (A + "funds_lease.c", "if (e == ERR_OK && rating_of_node(l, &r))", "if (false && rating_of_node(l, &r))", "a node alone is not held"),
    (A + "funds_quote.c", "    if (ask->shape.exclusive)\n        TRY(line_add", "    if (false)\n        TRY(line_add", "a quote forgets the surcharge"),
    (A + "close.c", "TRY(spot_row_unsettled(b->store, b->project, p->to_s, id));", "",
     "a month is closed over a run that may turn out to be free"),
    (A + "close.c", "b->project, p->to_s, id));", "b->project, p->from_s, id));", "a month does not wait for the runs of its last day"),
    (A + "funds_view.c", "if (e == ERR_OK && rating_of_node(l, &r))", "if (false)", "the wallet lasts as if a node alone were free"),
    (A + "funds_quote.c", "    if (ask->shape.exclusive)\n        strbuf_add", "    if (false)\n        strbuf_add",
     "a quote beside others is good for a node alone"),
    (A + "funds_spot.c", "? bid : v;", "? v : bid;", "the dearer of tick and bid is charged"),
    (A + "funds_plan.c", "p->cards < r->qty_per_s", "false", "a plan covers more cards than were bought"),
    (A + "funds_plan.c", "MIN(p->over_s ? p->over_s : p->end_s, to_s)", "MIN(p->end_s, to_s)",
     "a plan that was left goes on covering"),
    (A + "funds_plan.c", "int64_t begin = MAX(p->start_s, from_s);", "int64_t begin = from_s;",
     "a plan covers what ran before it"),
    (A + "funds_budget.c", "budget_rest(&money[i]) < need_u", "false", "a plan passes a budget"),
    (A + "funds_package.c", "ledger_available(&a) + reserved_of(&parts, p->id)", "p->seconds",
     "leases count with the same card-seconds"),
    (A + "funds_package.c", "p->used += qty;", "", "used card-seconds come back"),
    (A + "funds_package.c", "(over || v.used == p->seconds)", "over", "a package that is used up stays open"),
    (A + "funds_package.c", "int64_t s = MIN(c->to_s, until_s) - c->from_s;", "int64_t s = c->to_s - c->from_s;",
     "a term that was cut short reserves for its whole length"),
    (D + "package.c", "p[i].expires_s <= from_s", "p[i].expires_s < from_s", "a package covers the second of its end"),
    (D + "package.c", "end = from_s + MIN(end - from_s, p[i].left / qty_per_s);", "", "an empty package cuts nothing"),
    (D + "package.c", "return x->wide ? 1 : -1;", "return x->wide ? -1 : 1;", "the wider package is used first"),
    (A + "funds_plan.c", "p->refunded_u = p->paid_u - consumed;", "", "what was given back is forgotten"),
    (A + "funds_plan.c", "MAX(MIN(b->now_s, p->end_s), p->start_s)", "p->end_s", "who leaves early pays all"),
    (A + "funds_plan.c", "TRY(budget_count(b, p, -ret_back->refund_u));", "", "what came back goes on counting for budgets"),
    (A + "funds_rate.c", "if (!str_eq(p->window[i], w->id))", "if (true)",
     "a term that a plan interrupts starts its windows anew"),
    (A + "fund_hold.c", "TRY(micro_add(MAX(low, high), from_s > 0, &low));", "low = MAX(low, high);",
     "seconds left out before a cut make the stretch after it short"),
    (A + "fund_hold.c", "|| p->until_s < to_s)", ")", "a voucher pays seconds after its end"),
    (A + "fund_hold.c", "parts->at[i].until_s = MIN(parts->at[i].until_s, s->grants[k].expires_s);", ";",
     "the last stretch forgets the ends of vouchers"),
    (A + "fund_hold.c", "if (unpaid > 0)\n                return ERR_BALANCE;", "", "a term is granted that nothing pays"),
    (A + "fund_source.c", "s->grants[i].barred = s->skus[i][0] &&", "s->grants[i].barred = false &&",
     "a voucher for one SKU pays another"),
    (A + "fund_source.c", "MAX(x->credit_limit_u - x->credit_used_u - a.dr_pending, (int64_t)0)", "ledger_available(&a)",
     "a lowered limit lends on"),
    (A + "fund_source.c", "parts.at[i].amount_u - parts.at[i].used_u", "parts.at[i].amount_u",
     "what a hold used is spent again"),
    (A + "fund_source.c", "if (grants.at[i].expires_s > from_s)", "if (false)", "a disk's time is not cut at a voucher's end"),
    (A + "fund_grant.c", "if (a.dr_pending > 0)", "if (false)", "a voucher is closed while a hold has some of it"),
    (A + "fund_grant.c", "int64_t left = ledger_available(&a);", "int64_t left = ledger_balance(&a);",
     "what a hold has of a voucher lapses"),
    (A + "fund_grant.c", "TRY(funds_post_free(b, why)); /* what was rated before is not its to pay */", "",
     "a voucher pays for what was before it"),
    (A + "fund_grant.c", "a.limit = MAX(limit_u, in_use);", "a.limit = limit_u;", "a limit below what is used breaks the books"),
    (A + "fund_buy.c", "return replay(b, p, &row, ret_s, why);", "return ERR_OK;", "a repeated purchase tells nothing"),
    (A + "fund_buy.c", "row.refunds = 1;", "", "a purchase is refunded twice"),
    (A + "fund_buy.c", ".credit_u = MIN(r.cash_u, row->credit_u),", "", "credit is paid out as cash"),
    (A + "funds_post.c", "t->amount = p->used_u;", "t->amount = p->used_u > 0 ? p->amount_u : 0;", "the whole hold is posted"),
    (A + "funds_post.c", "for (size_t i = 0; i < parts->len; i++) {\n        const struct part_row *p",
     "for (size_t i = 1; i < parts->len; i++) {\n        const struct part_row *p", "one void is skipped"),
    (A + "funds_post.c", "TRY(add_repay(b, id, \"credit\", \"repaycr\", g, &n, &left));", "", "a top-up leaves the debt"),
    (A + "funds_post.c", "at_s - 1, INT64_MAX", "at_s, INT64_MAX", "a voucher misses its last second"),
    (A + "channel.c", "!c->off && signed_by", "signed_by", "a channel that is off goes on paying"),
    (A + "channel.c", "if (!one_line(fields[i]))", "if (false)", "a notice's fields can be moved about"),
    (A + "funds_rate.c", "    if (c[0].price.s[0]) {", "    if (false) {", "what is shown per hour knows no plan"),
    (D + "bill.c", "        c->ties--;\n", "", "streamed lines get more than there is to give"),
    (D + "bill.c", "    c->counts[remainder]++;", "", "the streamed cut forgets remainders"),
    (A + "close_write.c", "MIN(u, *io_cash_u);\n    *io_cash_u -= from_cash;", "u;", "tax on top overdraws the wallet"),
    (A + "close_write.c", "if (parts[i] == 0)\n            continue;", "continue;", "tax inside stays revenue"),
    (A + "close_write.c", "if (w->st.residue_u > 0) {", "if (false) {", "the residue is kept"),
    (A + "close_write.c", "if (e == ERR_OK && is_credit(c->dr))", "if (false)", "vouchers are invoiced"),
    (A + "close_write.c", "e = cost_before(w->b, l, &from_u);", "from_u = 0;", "a correction takes the first charges"),
    (A + "close_write.c", "    TRY(corrections(w, p));\n", "", "late usage is never billed"),
    (A + "close.c", "if (b.now_s >= r.month.to_s + BILL_COLLECT_S) {", "if (b.now_s >= r.month.to_s) {",
     "a month closes before it is collected"),
    (A + "close.c", "TRY(advance(&b, &r.month));", "", "a month closes again"),
    (A + "close.c", "if (from_s >= state.until_s)\n        return ERR_OK;", "return ERR_OK;",
     "late usage changes a closed month"),
    (A + "close_tax.c", "strlen(r->prefix) >= strlen(best->prefix)", "false", "the first tax rule wins"),
    (D + "tax.c", "if (amount_minor >= 0)", "if (true)", "a group below zero has no tax"),
    (A + "invoice.c", "    TRY(check_paid(&b, &st, why));\n", "", "what is owed is invoiced"),
    (A + "invoice.c", "amount_minor > rest ||", "", "more is taken back than was invoiced"),
    (A + "invoice.c", "t.tax_minor = MIN(t.tax_minor, rest[i].tax_minor);", "t.tax_minor = 0;",
     "a credit note takes no tax back"),
    (D + "payout.c", "due >= threshold_u", "due > threshold_u", "what reaches the threshold is carried on"),
    (D + "payout.c", "if (given > gross_u)", "if (false)", "shares above the whole pass"),
    (A + "funds_budget.c", "        if (rows.at[i].notify)\n            continue;\n        *vec_push", "        *vec_push",
     "a budget that only warns shortens terms"),
    (A + "funds_budget.c", "(at[n] == ',' || at[n] == '\\0')", "true", "the beginning of a label is the label"),
    (A + "funds_budget.c", "m.at, m.n + 1, MIN(", "m.at, m.n, MIN(", "a term forgets itself among those under its cap"),
    (A + "funds_budget.c", "case BUDGET_DAY:\n        period_day_at(", "case BUDGET_DAY:\n        period_month_at(",
     "a day's cap counts the month"),
    (A + "funds_budget.c", "if (percent > row->alert_pct)", "if (percent > 0)", "a warning comes again and again"),
    (A + "supply.c", "TRY(payout_delta(shares, 2, g.gross_u, d->gross_u, part));",
     "TRY(payout_delta(shares, 2, 0, MAX(d->gross_u - g.gross_u, (int64_t)0), part));", "a supplier's shares are floored one by one"),
    (A + "supply.c", "    g.gross_u = d->gross_u;\n", "", "a source is shared again and again"),
    (A + "supply.c", "(now / MS_PER_S - suppliers.at[i].dispute_s) / DAY_S", "now / MS_PER_S / DAY_S",
     "earnings do not wait for the dispute window"),
    (A + "supply.c", "    p.amount_u -= p.amount_u % minor;", "    (void)minor;", "parts of a cent are paid out"),
    (A + "supply.c", "TRY(payout_run(have.payable_u, 0, x->threshold_u,", "TRY(payout_run(have.payable_u, 0, 0,",
     "a supplier's threshold is ignored"),
    (A + "supply.c", "if (part[0] < 0) {", "if (false) {", "a refund is not taken back from the supplier"),
    (A + "clearing.c", "if (o.amount_u != l->amount_u || !str_eq(o.currency, l->currency))\n        *ret_r = LINE_AMOUNT;\n    else if (o.state",
     "if (false)\n        *ret_r = LINE_AMOUNT;\n    else if (o.state", "another amount matches"),
    (A + "clearing.c", "else if (!str_eq(o.reference, l->reference))", "else if (false)", "a second payment of an order matches"),
    (A + "clearing.c", "l->amount_u > o.refunded_u - shown", "l->amount_u > o.refunded_u", "one refund matches two lines"),
    (A + "clearing.c", "bool back = l->kind == LINE_REFUND;", "bool back = false;", "a refund of the file brings money in"),
    (A + "clearing.c", "return a->amount_u == b->amount_u && a->at", "return a->at", "another amount under a known reference is the same line"),
    (A + "clearing.c", "    TRY(move(op, l, \"rematch\", \"suspense\", \"clearing\"));\n", "", "what is matched late stays in suspense"),
    (A + "clearing.c", "    TRY(move(op, io_l, \"return\", \"suspense\", \"bank\"));\n", "", "what was sent back stays in suspense"),
    (A + "clearing.c", "m.u <= 0 || m.u % currency_minor_u(ccy) != 0 ||", "m.u <= 0 ||", "parts of a cent are read"),
    (A + "fx.c", "    if (x.fee_u > 0)\n", "    if (false)\n", "the spread of an exchange is lost"),
    (A + "fx.c", "\"fx\", clearing, \"fx\", x.converted_u", "\"fx\", clearing, \"fx\", o->amount_u", "the spread is taken twice"),
    (A + "fx.c", "b, o->id, from, x.dst_u,", "b, o->id, from, o->amount_u,", "dollars are credited as yuan"),
    (A + "fx.c", "r.n, r.d, r.spread_n, r.spread_d, &e", "r.n, r.d, 0, r.spread_d, &e", "an exchange has no spread"),
    (A + "fx.c", "        d *= 10;\n", "        d *= i ? 10 : 1;\n", "a rate is ten times what was said"),
    (A + "channel.c", "    if (e == ERR_OK)\n        return mismatch(op, o->id.s, other.id.s);\n",
     "    if (e == ERR_OK)\n        e = ERR_NOT_FOUND;\n", "one payment pays two orders"),
    (A + "channel.c", "return str_eq(o->reference, reference) ? ERR_OK :", "return true ? ERR_OK :", "an order is paid by two payments"),
    (A + "op_channel.c", "m.u != ret_o->amount_u", "false", "a notice of another amount credits the order's"),
    (A + "op_channel.c", "    TRY(nonce_check(op, &n, text));\n", "", "a nonce is good for two contents"),
    (A + "op_channel.c", "n.time_s < now_s - CHANNEL_CLOCK_S ||", "", "an old notice is good for ever"),
    (A + "op_topup.c", "        o->refunded_u += u;\n", "", "an order is refunded twice"),
    (A + "usage_cost.c", "TRY(rate_delta(&w->rate, w->qty, w->qty + qty, &c.u));", "TRY(rate_total(&w->rate, qty, &c.u));",
     "parts of a month are floored one by one"),
    (A + "funds_usage.c", "r->done = r->seq == io_a->ack_seq + 1;", "r->done = true;", "a slice behind a hole is taken before its turn"),
    (A + "funds_usage.c", "    if (!new)\n        return slice_again(s, now, r, io_a);\n", "", "a slice that is stored is taken again"),
    (A + "funds_usage.c", "return money_lease_moved(b->store, l);", "return ERR_OK;", "a lease forgets how far it is"),
    (A + "funds_rate.c", "money_window_save(b->store, &w) : money_window_rated(b->store, &w));",
     "money_window_save(b->store, &w) : ERR_OK);", "a window keeps its first part only"),
    (S + "kept.c", "k->written[i * 64 + (size_t)__builtin_ctzll(left)] = k->clock;", ";", "a write is not seen in what is kept"),
    (S + "kept.c", "    k->forgotten = ++k->clock;\n", "", "what was taken back is kept"),
    (S + "kept.c", "memcmp(r->key, key, key_len) != 0", "false", "rows of another key are answered"),
    (S + "rows_budget.c", "TRY(sum_add(s, project, &r[i], from_s, u));", "TRY(sum_add(s, project, &r[0], from_s, u));",
     "only the first of those whose money it is spends"),
    (A + "usage_cost.c", "to = MIN(s->to_s, day.to_s);", "to = s->to_s;", "a part of a month is in two days"),
    (A + "focus_commit.c", "    TRY(earned(c, from, &a));\n    TRY(earned(c, to, &b));\n    *ret_u = b - a;",
     "    TRY(earned(c, (c->is_package ? 0 : c->plan.start_s), &a));\n    TRY(earned(c, (c->is_package ? 0 : c->plan.start_s) + to - from, &b));\n    *ret_u = b - a;",
     "an amortised share is floored row by row"),
    (A + "focus_commit.c", "        *ret_u = c->kept_u;\n        return ERR_OK;", "        *ret_u = p->paid_u;\n        return ERR_OK;",
     "what was given back is spread over the term"),
    (A + "focus_commit.c", "    unused_row(f, c, from_s, to_s, from - to, -u);", "", "a late second is used and unused"),
    (A + "focus_commit.c", "        to = used->qty += qty;", "        to = used->qty + qty;", "card-seconds are spread from the first again and again"),
    (A + "focus_commit.c", "    f->v[C_InvoiceId][0] = '\\0';", "", "what came back later lowers a number's sum"),
    (A + "usage_cost.c", "(to - from) * s->qty_per_s", "to - from", "two cards cost what one does"),
]
APP_TESTS = [("tests/unit/test_kept", []), ("tests/unit/test_close", []), ("tests/unit/test_invoice", []), ("tests/unit/test_plan", []), ("tests/unit/test_package", []), ("tests/prop/prop_package", ["--cases", "24000", "--seed", "1"]), ("tests/unit/test_spot", []), ("tests/unit/test_exclusive", []), ("tests/prop/prop_plan", ["--cases", "8000", "--seed", "1"]),
             ("tests/unit/test_money_ops", []), ("tests/unit/test_wallet", []), ("tests/unit/test_funds", []),
             ("tests/prop/prop_funds", ["--cases", "2400", "--seed", "1"]), ("tests/prop/prop_close", ["--cases", "12000", "--seed", "1"]),
             ("tests/unit/test_budget", []), ("tests/unit/test_supply", []), ("tests/unit/test_clearing", []),
             ("tests/unit/test_review", []), ("tests/prop/prop_supply", ["--cases", "8000", "--seed", "1"]),
             ("tests/prop/prop_payments", ["--cases", "3000", "--seed", "1"])]
# the only ones that see what a file does, and slow: tried alone
ALONE = {A + "focus_commit.c": [("tests/sim/test_proof_focus", [])]}
FIRST_APP = {D + "package.c", S + "kept.c", S + "rows_budget.c"} # of the domain, tried by tests that link the app
# what is most likely to find a mistake in a file, tried first
FIRST = {S + "kept.c": "test_kept", S + "rows_budget.c": "test_kept", A + "funds_usage.c": "test_funds",
         A + "funds_budget.c": "test_budget", A + "supply.c": "test_supply", A + "usage_cost.c": "test_review",
         A + "clearing.c": "prop_payments", A + "fx.c": "prop_payments", A + "channel.c": "prop_payments",
         A + "op_channel.c": "prop_payments", A + "op_topup.c": "prop_payments", A + "funds_plan.c": "test_plan",
         A + "funds_package.c": "test_package", D + "package.c": "test_package",
         A + "fund_hold.c": "test_wallet", A + "fund_source.c": "test_wallet", A + "fund_grant.c": "test_wallet",
         A + "fund_buy.c": "test_wallet", A + "funds_post.c": "test_wallet", A + "funds_spot.c": "test_spot", A + "funds_reverse.c": "test_spot", A + "funds_rate.c": "test_exclusive", A + "funds_view.c": "test_exclusive", A + "funds_quote.c": "test_exclusive",
         A + "close_write.c": "test_close", A + "close.c": "test_spot", D + "bill.c": "prop_bill"}

TESTS = [("tests/golden/test_golden", ["tests/golden/billing.tsv", "tests/golden/extra.tsv"])] + \
        [(f"tests/unit/test_{t}", []) for t in ("money", "ledger", "term", "bill", "calendar")] + \
        [(f"tests/prop/prop_{t}", ["--cases", "1500", "--seed", "1"]) for t in ("money", "bill", "ledger", "calendar", "price")]

commands = {os.path.relpath(os.path.join(c["directory"], c["file"]), ROOT): c
            for c in json.load(open(os.path.join(BUILD, "compile_commands.json")))}

def compile_mutant(path, text, folder):
    name = os.path.join(folder, "mutant.c")
    with open(name, "w") as f:
        f.write(text)
    c = commands[path]
    args, out, skip = [], [], False
    words = shlex.split(c["command"])
    for i, w in enumerate(words):
        if skip:
            skip = False
        elif w in ("-o", "-MF", "-MQ"):
            skip = True
        elif w not in ("-MD", "-c", "-Werror", "ccache") and not w.endswith(".c"):
            args.append(w)
    obj = os.path.join(folder, "mutant.o")
    subprocess.run(args + ["-w", "-c", name, "-o", obj], check=True, cwd=c["directory"])
    return obj

def link(test, obj, folder, app):
    """The mutant comes before the archives, so its symbols win and the original is not drawn in."""
    objects = [os.path.join(r, f) for r, _, fs in os.walk(os.path.join(BUILD, test + ".p"))
               for f in fs if f.endswith(".o")]
    libs = [os.path.join(BUILD, p) for p in ("tests/golden/libgolden.a", "tests/prop/libtape.a",
                                             "src/domain/libdomain.a", "src/base/libbase.a")]
    if app:
        libs += [os.path.join(BUILD, p) for p in ("src/app/libapp.a", "src/store/libstore.a", "src/engine/libengine.a")]
    if test.startswith("tests/sim/"):
        libs += [os.path.join(BUILD, p) for p in ("tests/sim/libsimworld.a", "src/cli/libcli.a")]
    exe = os.path.join(folder, os.path.basename(test))
    flags = [f for f in shlex.split(commands[D + "money.c"]["command"]) if f.startswith("-fsanitize")]
    subprocess.run(["cc", "-o", exe] + flags + objects + [obj, "-Wl,--start-group"] + libs +
                   ["-Wl,--end-group", "-ljansson", "-lcmocka", "-lgmp", "-lsodium", "-lsqlite3", "-lm"], check=True)
    return exe

def killed_by(obj, folder, path):
    app = path.startswith(A) or path in FIRST_APP
    tests = ALONE.get(path, APP_TESTS if app else TESTS)
    for test, args in sorted(tests, key=lambda t: os.path.basename(t[0]) != FIRST.get(path)):
        exe = link(test, obj, folder, app)
        try:
            r = subprocess.run([exe] + args, cwd=ROOT, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, timeout=120)
        except subprocess.TimeoutExpired:
            return os.path.basename(test) + " (never ended)"
        if r.returncode != 0:
            return os.path.basename(test)
    return None

def clean(path):
    """A test that fails by itself would find everything."""
    with tempfile.TemporaryDirectory() as folder:
        found = killed_by(compile_mutant(path, open(os.path.join(ROOT, path)).read(), folder), folder, path)
    what = f"without a mistake in {os.path.dirname(path)} nothing is found"
    return (False, f"{what}: {found}") if found else (True, what)

def tried(mutant):
    path, old, new, what = mutant
    text = open(os.path.join(ROOT, path)).read()
    if text.count(old) != 1:
        return False, f"{what}: the place is there {text.count(old)} times in {path}"
    with tempfile.TemporaryDirectory() as folder:
        try:
            killer = killed_by(compile_mutant(path, text.replace(old, new), folder), folder, path)
        except subprocess.CalledProcessError:
            return False, f"{what}: does not build"
    return (True, f"{what}: found by {killer}") if killer else (False, f"{what}: nobody noticed")

def main():
    only = [m for m in MUTANTS if not sys.argv[2:] or m[0] in sys.argv[2:]]
    print(f"1..{len(only) + 2}")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = [*map(lambda p: pool.submit(clean, p), (D + "rate.c", A + "fx.c")),
                   *map(lambda m: pool.submit(tried, m), only)]
        for n, r in enumerate(results, 1):
            ok, what = r.result()
            print(f"{'ok' if ok else 'not ok'} {n} - {what}", flush=True)

main()
