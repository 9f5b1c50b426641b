-- Reserved plans. Amounts in micro-units, instants *_s in whole seconds.

-- one term of a plan. price: what its covered seconds cost (0); offer: what it was bought at;
-- ondemand: the price of a clawback; '' when there was none. state 0 runs, 1 over, 2 released
CREATE TABLE plan(
    id TEXT PRIMARY KEY, project TEXT NOT NULL, instance TEXT NOT NULL, sku TEXT NOT NULL,
    cards INTEGER NOT NULL CHECK(cards > 0), unit INTEGER NOT NULL,
    anchor_s INTEGER NOT NULL, term INTEGER NOT NULL CHECK(term >= 1),
    start_s INTEGER NOT NULL, end_s INTEGER NOT NULL,
    price TEXT NOT NULL REFERENCES price_version(id), offer TEXT NOT NULL, ondemand TEXT NOT NULL,
    policy INTEGER NOT NULL, fee_pct INTEGER NOT NULL,
    -- recognised: in the books as revenue; refunded: given back or lapsed
    paid_u INTEGER NOT NULL CHECK(paid_u >= 0),
    recognised_u INTEGER NOT NULL CHECK(recognised_u >= 0),
    refunded_u INTEGER NOT NULL CHECK(refunded_u >= 0),
    renew INTEGER NOT NULL, renew_told INTEGER NOT NULL, go_on INTEGER NOT NULL,
    state INTEGER NOT NULL,
    over_s INTEGER NOT NULL, before TEXT NOT NULL, bought_at INTEGER NOT NULL,
    CHECK(start_s < end_s), CHECK(recognised_u + refunded_u <= paid_u)
) STRICT;
CREATE INDEX plan_instance ON plan(instance);
CREATE INDEX plan_project ON plan(project);
CREATE INDEX plan_running ON plan(end_s) WHERE state = 0;
