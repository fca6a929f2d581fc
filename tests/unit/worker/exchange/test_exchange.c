#include "worker/exchange/exchange.h"

#include <criterion/criterion.h>
#include <string.h>

/* One process that is its own peer: what it asks for it serves itself, through a real transport. */
static struct self {
    struct exchange *exchange;
    struct transport *transport;
    float rows[4][8]; /* what part `from` gives */
    int n_packed, n_sent;
    uint32_t packed[16]; /* parts whose rows were packed, in order */
    bool full;           /* pack is refused */
    size_t piece;        /* most bytes that leave at once; 0: all */
} self;

static void *self_place(void *arg, const struct transport_head *head, size_t n_bytes)
{
    (void)arg;
    return exchange_place(self.exchange, head, n_bytes);
}

static void self_arrived(void *arg, const struct transport_head *head, void *body, size_t n_bytes)
{
    (void)arg;
    exchange_arrived(self.exchange, head, body, n_bytes);
}

static bool self_pack(void *arg, uint32_t to, uint32_t from, size_t at, struct exchange_piece *out)
{
    (void)arg;
    (void)to;
    if (self.full) {
        return false;
    }
    self.packed[self.n_packed++ % 16] = from;
    size_t left = sizeof self.rows[from] - at;
    *out = (struct exchange_piece){.bytes = (const char *)self.rows[from] + at,
                                   .n_bytes = self.piece > 0 && self.piece < left ? self.piece : left,
                                   .total = sizeof self.rows[from]};
    return true;
}

static void self_sent(void *arg, const void *bytes)
{
    (void)arg;
    (void)bytes;
    self.n_sent++;
}

static void self_close(void)
{
    if (self.exchange != NULL) {
        transport_close(self.transport);
        exchange_close(self.exchange);
    }
    self = (struct self){0};
}

TestSuite(exchange, .fini = self_close);

static void self_open(int n_request)
{
    self_close();
    for (int p = 0; p < 4; p++) {
        for (int c = 0; c < 8; c++) {
            self.rows[p][c] = (float)(10 * p + c);
        }
    }
    struct transport_events events = {.place = self_place, .arrived = self_arrived};
    self.exchange = exchange_open(n_request, 8);
    cr_assert_eq(transport_open(0, 1, 1, 16, NULL, &events, &self.transport), STATUS_OK, "%s", status_reason());
    exchange_attach(self.exchange, self.transport);
}

static struct exchange_key key_of(uint16_t op, uint32_t from)
{
    return (struct exchange_key){.epoch = 3, .phase = EXCHANGE_PHASE_FORWARD, .op = op, .to = 9, .from = from};
}

static void serve(uint16_t op, int n_serve)
{
    struct exchange_key key = key_of(op, 0);
    struct exchange_offer offer = {.pack = self_pack, .sent = self_sent};
    exchange_serve(self.exchange, &key, &offer, n_serve);
}

static int ask(uint16_t op, uint32_t from, void *rows, size_t n_bytes)
{
    struct exchange_key key = key_of(op, from);
    int handle;
    cr_assert_eq(exchange_fetch(self.exchange, 0, &key, rows, n_bytes, &handle), STATUS_OK);
    return handle;
}

/* Until what is under way has come. */
static enum status progress(void)
{
    enum status status = STATUS_OK;
    for (int i = 0; i < 1000 && status == STATUS_OK; i++) {
        status = exchange_progress(self.exchange);
    }
    return status;
}

Test(exchange, what_is_asked_for_arrives_whole_and_in_its_place)
{
    self_open(4);
    for (uint16_t op = 1; op <= 3; op++) { /* more in all than the credit of one op */
        serve(op, 4);
        float rows[4][8];
        int handle[4];
        for (uint32_t p = 0; p < 4; p++) {
            handle[p] = ask(op, 3 - p, rows[3 - p], sizeof rows[0]);
        }
        for (int p = 0; p < 4; p++) {
            cr_assert_eq(exchange_wait(self.exchange, handle[p]), STATUS_OK, "%s", status_reason());
        }
        cr_assert_eq(exchange_settle(self.exchange), STATUS_OK);
        cr_expect_arr_eq(rows, self.rows, sizeof rows);
        cr_expect_eq(self.n_packed, 4 * op);
        cr_expect_eq(self.n_sent, 4 * op);
    }
}

Test(exchange, a_payload_may_leave_in_pieces)
{
    self_open(4);
    self.piece = 12; /* 32 bytes are three pieces */
    serve(1, 2);
    float rows[2][8];
    int first = ask(1, 0, rows[0], sizeof rows[0]), second = ask(1, 1, rows[1], sizeof rows[1]);
    cr_assert_eq(exchange_wait(self.exchange, second), STATUS_OK, "%s", status_reason());
    cr_assert_eq(exchange_wait(self.exchange, first), STATUS_OK);
    cr_assert_eq(exchange_settle(self.exchange), STATUS_OK);
    cr_expect_arr_eq(rows, self.rows, sizeof rows);
    cr_expect_eq(self.n_packed, 6);
    cr_expect_eq(self.n_sent, 6);
}

/* Part 2 uses rows of part 3 first, then those of 0 and 1. */
Test(exchange, requests_are_served_in_the_order_in_which_rows_are_used)
{
    static const uint32_t asked[] = {1, 0, 3}, used[] = {3, 3, 3, 0, 0, 0, 1, 1, 1};
    float rows[3][8];
    int handle[3];
    self_open(4);
    self.piece = 12;
    for (int r = 0; r < 3; r++) {
        const struct exchange_key key = {
            .epoch = 3, .phase = EXCHANGE_PHASE_FORWARD, .op = 1, .to = 2, .from = asked[r]};
        cr_assert_eq(exchange_fetch(self.exchange, 0, &key, rows[r], sizeof rows[r], &handle[r]), STATUS_OK);
    }
    cr_assert_eq(progress(), STATUS_OK); /* all have come before anything is offered */
    serve(1, 3);
    for (int r = 0; r < 3; r++) {
        cr_assert_eq(exchange_wait(self.exchange, handle[r]), STATUS_OK, "%s", status_reason());
        cr_expect_arr_eq(rows[r], self.rows[asked[r]], sizeof rows[r]);
    }
    cr_assert_eq(exchange_settle(self.exchange), STATUS_OK);
    cr_expect_arr_eq(self.packed, used, sizeof used);
}

/* Send, unasked, a piece of what part 1 gives, and let it arrive. */
static enum status piece_arrives(uint64_t offset, size_t n_bytes, uint64_t total)
{
    struct transport_head head = {.kind = TRANSPORT_KIND_PAYLOAD,
                                  .id = 1,
                                  .epoch = 3,
                                  .phase = EXCHANGE_PHASE_FORWARD,
                                  .to = 9,
                                  .from = 1,
                                  .offset = offset,
                                  .total = total};
    transport_send(self.transport, 0, &head, self.rows[0], n_bytes, NULL);
    return progress();
}

Test(exchange, pieces_beyond_what_was_asked_for_are_refused)
{
    static const struct {
        uint64_t offset;
        size_t n_bytes;
        uint64_t total;
        const char *said;
    } pieces[] = {{24, 12, 32, "12 bytes at 24"},
                  {UINT64_MAX - 3, 8, 32, "8 bytes at"},
                  {0, 0, 24, "sent 24 bytes"},
                  {0, 32, 36, "expected 32"}};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        self_open(8);
        float rows[8];
        ask(1, 1, rows, sizeof rows);
        cr_expect_eq(piece_arrives(pieces[i].offset, pieces[i].n_bytes, pieces[i].total), STATUS_PEER);
        cr_expect_not_null(strstr(status_reason(), pieces[i].said), "%s", status_reason());
    }
}

Test(exchange, pieces_that_come_twice_are_refused)
{
    self_open(8);
    float rows[8];
    ask(1, 1, rows, sizeof rows);
    cr_expect_eq(piece_arrives(0, 20, 32), STATUS_OK, "%s", status_reason());
    cr_expect_eq(piece_arrives(0, 20, 32), STATUS_PEER);
    cr_expect_not_null(strstr(status_reason(), "expected 12 more of 32"), "%s", status_reason());
}

Test(exchange, a_request_that_comes_before_its_op_waits_for_it)
{
    self_open(8);
    float now[8], later[8];
    int early = ask(2, 1, later, sizeof later);
    serve(1, 1);
    cr_assert_eq(exchange_progress(self.exchange), STATUS_OK);
    cr_assert_eq(self.n_packed, 0, "served an op that has not begun");
    int handle = ask(1, 0, now, sizeof now);
    cr_assert_eq(exchange_wait(self.exchange, handle), STATUS_OK);
    cr_assert_eq(exchange_settle(self.exchange), STATUS_OK);
    cr_expect_arr_eq(now, self.rows[0], sizeof now);
    serve(2, 1);
    cr_assert_eq(exchange_wait(self.exchange, early), STATUS_OK);
    cr_assert_eq(exchange_settle(self.exchange), STATUS_OK);
    cr_expect_arr_eq(later, self.rows[1], sizeof later);
}

Test(exchange, a_payload_without_room_is_made_when_there_is_some)
{
    self_open(8);
    self.full = true;
    serve(1, 1);
    float rows[8];
    int handle = ask(1, 2, rows, sizeof rows);
    cr_assert_eq(exchange_progress(self.exchange), STATUS_OK);
    cr_assert_eq(exchange_progress(self.exchange), STATUS_OK);
    cr_expect_eq(self.n_packed, 0);
    self.full = false;
    cr_assert_eq(exchange_wait(self.exchange, handle), STATUS_OK);
    cr_assert_eq(exchange_settle(self.exchange), STATUS_OK);
    cr_expect_arr_eq(rows, self.rows[2], sizeof rows);
}

Test(exchange, a_payload_of_another_length_is_refused_with_both_lengths)
{
    self_open(8);
    serve(1, 1);
    float rows[8];
    int handle = ask(1, 1, rows, sizeof rows - 4);
    cr_expect_eq(exchange_wait(self.exchange, handle), STATUS_PEER);
    cr_expect_not_null(strstr(status_reason(), "32 bytes"), "%s", status_reason());
    cr_expect_not_null(strstr(status_reason(), "expected 28"), "%s", status_reason());
}

Test(exchange, a_payload_nobody_asked_for_is_refused)
{
    self_open(8);
    struct transport_head head = {
        .kind = TRANSPORT_KIND_PAYLOAD, .id = 1, .epoch = 3, .phase = EXCHANGE_PHASE_FORWARD, .to = 1, .from = 2};
    transport_send(self.transport, 0, &head, self.rows[0], sizeof self.rows[0], NULL);
    cr_expect_eq(progress(), STATUS_PEER);
    cr_expect_not_null(strstr(status_reason(), "not asked for"), "%s", status_reason());
}

Test(exchange, a_peer_that_asks_past_its_credit_is_refused)
{
    self_open(2);
    float rows[3][8];
    for (uint32_t p = 0; p < 3; p++) {
        ask(5, p, rows[p], sizeof rows[p]);
    }
    cr_expect_eq(progress(), STATUS_PEER);
    cr_expect_not_null(strstr(status_reason(), "credit of 2"), "%s", status_reason());
}

/* --- a stock --- */

struct stock {
    bool there;
    int n_found;
};

static bool stock_find(void *arg, const struct exchange_key *key, struct exchange_piece *out)
{
    struct stock *stock = arg;
    const float *row = self.rows[key->from];
    if (stock->there) {
        stock->n_found++;
        *out = (struct exchange_piece){.bytes = row, .n_bytes = sizeof self.rows[0], .total = sizeof self.rows[0]};
    }
    return stock->there;
}

static int stock_ask(enum exchange_phase phase, uint32_t from, void *rows)
{
    struct exchange_key key = {.epoch = 3, .phase = (uint32_t)phase, .op = 1, .from = from};
    int handle;
    cr_assert_eq(exchange_fetch(self.exchange, 0, &key, rows, sizeof self.rows[0], &handle), STATUS_OK);
    return handle;
}

/* Under way while offers come and go, whose ends do not wait for them. */
Test(exchange, payloads_of_a_stock_are_fetched_whatever_else_is_offered)
{
    self_open(8);
    struct stock stock = {0};
    exchange_stock(self.exchange, &(struct exchange_stock){.arg = &stock, .find = stock_find});
    exchange_stock_add(self.exchange, 2);
    float stale[2][8] = {0}, rows[8];
    int first = stock_ask(EXCHANGE_PHASE_STALE_ROWS, 2, stale[0]);
    int second = stock_ask(EXCHANGE_PHASE_STALE_GRADIENTS, 3, stale[1]);
    for (uint16_t op = 1; op <= 2; op++) {
        serve(op, 1);
        cr_assert_eq(exchange_wait(self.exchange, ask(op, 1, rows, sizeof rows)), STATUS_OK, "%s", status_reason());
        cr_assert_eq(exchange_settle(self.exchange), STATUS_OK);
    }
    cr_expect_eq(self.n_sent, 2);
    cr_expect_eq(stock.n_found, 0, "nothing is made yet");
    cr_expect(!exchange_is_there(self.exchange, first) && !exchange_is_there(self.exchange, second));
    stock.there = true;
    cr_assert_eq(exchange_stock_settle(self.exchange), STATUS_OK, "%s", status_reason());
    cr_assert_eq(exchange_wait(self.exchange, second), STATUS_OK);
    cr_assert_eq(exchange_wait(self.exchange, first), STATUS_OK);
    cr_expect_arr_eq(stale, self.rows[2], sizeof stale);
    cr_expect_eq(stock.n_found, 2);
    cr_expect_eq(self.n_sent, 2, "an offer's pieces alone are given back");
}

/* --- lent pieces --- */

/* Copies end when they have been looked for so often. */
static struct lending {
    int n_look, n_copied;
    bool given_back; /* before it was copied */
    int looked[16];
    const char *from[16];
    void *out[16];
    uint64_t n_lent, after[16];
} lending;

static bool rows_lend(void *arg, uint32_t peer, const struct exchange_piece *piece, struct exchange_loan *out)
{
    (void)arg, (void)peer;
    *out = (struct exchange_loan){.n_bytes = piece->n_bytes, .at = (uint64_t)(uintptr_t)piece->bytes};
    return true;
}

static enum status rows_copy(void *arg, uint32_t peer, const struct exchange_loan *loan, uint64_t after, void *out,
                             uint64_t *mark_out)
{
    (void)arg, (void)peer;
    lending.from[lending.n_lent] = (const char *)(uintptr_t)loan->at;
    lending.out[lending.n_lent] = out;
    lending.after[lending.n_lent] = after;
    *mark_out = lending.n_lent++;
    return STATUS_OK;
}

static bool rows_copied(void *arg, uint64_t mark)
{
    (void)arg;
    if (lending.looked[mark]++ < lending.n_look) {
        return false;
    }
    lending.given_back = lending.given_back || self.n_sent > lending.n_copied++;
    memcpy(lending.out[mark], lending.from[mark], mark % 3 == 2 ? 8 : 12);
    return true;
}

Test(exchange, lent_pieces_are_there_when_they_are_copied_and_only_then_given_back)
{
    for (int n_look = 0; n_look < 40; n_look += 13) {
        self_open(8);
        lending = (struct lending){.n_look = n_look};
        const struct exchange_lender lender = {.lend = rows_lend, .copy = rows_copy, .copied = rows_copied};
        exchange_lend(self.exchange, &lender);
        self.piece = 12;
        serve(1, 2);
        float rows[2][8] = {0};
        int first = ask(1, 0, rows[0], sizeof rows[0]), second = ask(1, 1, rows[1], sizeof rows[1]);
        exchange_after(self.exchange, second, 77);
        cr_assert_eq(exchange_wait(self.exchange, second), STATUS_OK, "%s", status_reason());
        cr_expect_arr_eq(rows[1], self.rows[1], sizeof rows[1]);
        cr_assert_eq(exchange_wait(self.exchange, first), STATUS_OK);
        cr_assert_eq(exchange_settle(self.exchange), STATUS_OK);
        cr_expect_arr_eq(rows, self.rows, sizeof rows);
        cr_expect(lending.n_copied == 6 && self.n_sent == 6 && !lending.given_back);
        for (int c = 0; c < 6; c++) {
            cr_expect_eq(lending.after[c], lending.out[c] >= (void *)rows[1] ? 77 : 0, "copy %d", c);
        }
        cr_expect_eq(exchange_counts(self.exchange).n_carried, 0);
    }
}

Test(exchange, loans_that_were_not_asked_for_or_lent_are_refused)
{
    enum { LENT = TRANSPORT_KIND_LENT, READ = TRANSPORT_KIND_READ, LOAN = sizeof(struct exchange_loan) };
    static const struct {
        int kind, from, n_body, n_lent;
        const char *said;
    } loans[] = {{LENT, 2, LOAN, 32, "was not asked for"},         {LENT, 1, LOAN, 36, "sent 36 bytes at 0"},
                 {LENT, 1, LOAN - 4, 32, "36 bytes, expected 40"}, {LENT, 1, LOAN, 32, "lent more than 0 pieces"},
                 {READ, 1, 0, 0, "has read what it was not lent"}, {READ, 1, 8, 0, "of 8 bytes, expected 0"}};
    for (size_t i = 0; i < sizeof loans / sizeof *loans; i++) {
        self_open(8);
        float rows[8];
        ask(1, 1, rows, sizeof rows);
        const struct exchange_loan loan = {.n_bytes = (uint64_t)loans[i].n_lent};
        struct transport_head head = {.kind = (uint16_t)loans[i].kind, .id = 1, .epoch = 3, .to = 9, .total = 32};
        head.phase = EXCHANGE_PHASE_FORWARD;
        head.from = (uint32_t)loans[i].from;
        transport_send(self.transport, 0, &head, &loan, (size_t)loans[i].n_body, NULL);
        cr_expect_eq(progress(), STATUS_PEER, "%zu", i);
        cr_expect_not_null(strstr(status_reason(), loans[i].said), "%zu: %s", i, status_reason());
    }
}
