/* channel.h: payment channels: how money that was paid elsewhere comes into a wallet.
 *
 * A top-up order names a channel, an amount and a currency. When it is paid, the channel (or a
 * small adapter in front of it) posts a signed notice; the wallet is credited in the same
 * transaction that closes the order:  clearing.<channel>.<currency> → cash.<project>.
 *
 * A notice is signed over these lines, joined by "\n", without one at the end:
 *     suanli-notice-1, channel, order, amount, currency, reference, time, nonce
 * with HMAC-SHA256 (hex key of 32 bytes that channel add prints once) or Ed25519 (the channel has
 * the private key). It counts within CHANNEL_CLOCK_S of the ledger clock; a nonce is good for one
 * content; an order is paid once, by one reference. The same notice again gets the same answer and
 * changes nothing (I28). Core thread. */
#pragma once

#include "app/op.h"
#include "store/rows_wallet.h"

#define CHANNEL_CLOCK_S 300
#define CHANNEL_TEST_NAME "test"
#define CHANNEL_TEXT_SIZE 1024

struct channel_notice {
    const char *channel, *order, *amount, *currency, *reference, *nonce; /* borrowed */
    int64_t time_s;
};
/* The signed text. ERR_VALIDATION: too long, or a line break in a field. */
enum err channel_notice_text(const struct channel_notice *n, char ret_text[CHANNEL_TEXT_SIZE]);
/* ERR_NOTICE_SIGNATURE. signature: hex. */
enum err channel_notice_check(const struct channel_row *c, const char *text, const char *signature,
                              struct refusal *why);
/* Credits an order that was paid: the same reference again: nothing; another one, or a reference
 * that paid another order: ERR_NOTICE_MISMATCH. ret_paid: it changed now. */
enum err channel_order_paid(struct op *op, struct order_row *o, const char *reference,
                            bool *ret_paid);
/* The channel to pay by; the test channel is made when it is allowed and asked for. ERR_NOT_FOUND.
 */
enum err channel_find(struct op *op, const char *name, struct channel_row *ret_c);
