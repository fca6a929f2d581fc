/* Payload rows in low precision, left to the compiler's vectors: the arithmetic is models/device/codec.h's, of some
 * columns at a time. */

/* Columns that are rounded in one go: a multiple of 8, whose draws come together. */
#define CODEC_COLUMNS 256

/* Up to CODEC_COLUMNS columns of a row of x: where they lie, or in `wide` where they are BF16. */
TARGET static const float *columns_at(const struct device_coding *how, int64_t row, int64_t first, int64_t n,
                                      float *wide)
{
    if (!how->is_bf16) {
        return (const float *)how->x + row * how->f + first;
    }
    const uint16_t *x = (const uint16_t *)how->x + row * codec_row_bytes(DEVICE_CODEC_BF16, how->f) / 2 + first;
    for (int64_t c = 0; c < n; c++) {
        wide[c] = codec_from_bf16(x[c]);
    }
    return wide;
}

/* Columns of a row as they are encoded. */
TARGET static void values_read(const struct device_coding *how, int64_t row, int64_t first, int64_t n, float *out)
{
    float wide[CODEC_COLUMNS];
    const float *x = columns_at(how, row, first, n, wide);
    if (how->residual == NULL) {
        for (int64_t c = 0; c < n; c++) {
            out[c] = how->factor * x[c];
        }
        return;
    }
    const float *residual = how->residual + first;
    for (int64_t c = 0; c < n; c++) {
        out[c] = x[c] + residual[c];
    }
}

/* Some encoded columns, and the draws that round them. */
struct columns {
    int64_t n;
    float x[CODEC_COLUMNS];
    uint16_t draw[CODEC_COLUMNS];
};

TARGET static void columns_open(const struct device_coding *how, const struct random_key *key, int64_t row,
                                int64_t first, struct columns *out)
{
    out->n = how->f - first < CODEC_COLUMNS ? how->f - first : CODEC_COLUMNS;
    values_read(how, row, first, out->n, out->x);
    uint32_t number[CODEC_COLUMNS / 2]; /* two columns' each: the lower half is the first one's */
    draw(key, how->node[row], (uint32_t)(first / 8), (out->n + 7) / 8, number);
    for (int64_t c = 0; c < (out->n + 1) / 2; c++) {
        out->draw[2 * c] = (uint16_t)number[c];
        out->draw[2 * c + 1] = (uint16_t)(number[c] >> 16);
    }
}

TARGET static void bf16_encode(const struct device_coding *how, const struct random_key *key, int64_t row,
                               uint16_t *out)
{
    struct columns columns;
    for (int64_t first = 0; first < how->f; first += CODEC_COLUMNS) {
        columns_open(how, key, row, first, &columns);
        for (int64_t c = 0; c < columns.n; c++) {
            out[first + c] = codec_bf16(columns.x[c], columns.draw[c]);
        }
        for (int64_t c = 0; c < columns.n && how->residual != NULL; c++) {
            how->residual_out[first + c] = codec_lost(columns.x[c], codec_from_bf16(out[first + c]));
        }
    }
    if (how->f % 2 != 0) {
        out[how->f] = 0;
    }
}

/* Columns whose extent is found side by side. */
#define CODEC_LANES 16

struct extent {
    float low[CODEC_LANES], high[CODEC_LANES];
    float rest[CODEC_LANES]; /* Σ 0 · x: not 0 where some x is not finite */
};

TARGET static void extent_add(float factor, int64_t n, const float *x, struct extent *to)
{
    for (int64_t i = 0; i < n; i++) {
        float value = factor * x[i];
        to->low[i] = value < to->low[i] ? value : to->low[i];
        to->high[i] = value > to->high[i] ? value : to->high[i];
        to->rest[i] += 0.0F * value;
    }
}

/* n a multiple of the lanes, but for the last columns of a row. */
TARGET static void extents_add(float factor, int64_t n, const float *x, struct extent *to)
{
    int64_t c = 0;
    for (; c + CODEC_LANES <= n; c += CODEC_LANES) {
        extent_add(factor, CODEC_LANES, x + c, to);
    }
    extent_add(factor, n - c, x + c, to);
}

TARGET static struct codec_range range_find(const struct device_coding *how, int64_t row, int level)
{
    struct extent extent;
    float value[CODEC_COLUMNS];
    for (int i = 0; i < CODEC_LANES; i++) {
        extent.low[i] = INFINITY;
        extent.high[i] = -INFINITY;
        extent.rest[i] = 0.0F;
    }
    bool as_it_is = how->residual == NULL && !how->is_bf16;
    if (as_it_is) {
        extents_add(how->factor, how->f, (const float *)how->x + row * how->f, &extent);
    }
    for (int64_t first = 0; first < how->f && !as_it_is; first += CODEC_COLUMNS) {
        int64_t n = how->f - first < CODEC_COLUMNS ? how->f - first : CODEC_COLUMNS;
        values_read(how, row, first, n, value);
        extents_add(1.0F, n, value, &extent);
    }
    float rest = 0.0F;
    for (int i = 0; i < CODEC_LANES; i++) {
        extent.low[0] = extent.low[i] < extent.low[0] ? extent.low[i] : extent.low[0];
        extent.high[0] = extent.high[i] > extent.high[0] ? extent.high[i] : extent.high[0];
        rest += extent.rest[i];
    }
    return codec_range_make(extent.low[0], extent.high[0], rest == 0.0F, level);
}

/* Codes of `bits` bits each, from the lowest bits of each byte up. */
TARGET static void codes_pack(int bits, int64_t n, const uint8_t *code, uint8_t *out)
{
    int64_t each = 8 / bits;
    for (int64_t i = 0; i < (n + each - 1) / each; i++) {
        uint32_t byte = 0;
        for (int64_t k = 0; k < each; k++) {
            byte |= (uint32_t)code[i * each + k] << (k * bits);
        }
        out[i] = (uint8_t)byte;
    }
}

/* The rounding error of columns from `first` on. */
TARGET static void lost_write(const struct device_coding *how, const struct codec_range *range, int64_t first,
                              const struct columns *columns, const uint8_t *code)
{
    float *out = how->residual_out + first;
    if (range->header == CODEC_NO_NUMBER) {
        memset(out, 0, (size_t)columns->n * sizeof *out);
        return;
    }
    for (int64_t c = 0; c < columns->n; c++) {
        out[c] = codec_lost(columns->x[c], codec_value(range, code[c]));
    }
}

TARGET static void integers_encode(const struct device_coding *how, const struct random_key *key, int64_t row,
                                   int64_t row_bytes, uint8_t *out)
{
    int bits = codec_bits(how->codec), level = (1 << bits) - 1;
    const struct codec_range range = range_find(how, row, level);
    memset(out + row_bytes - sizeof range.header, 0, sizeof range.header); /* padding of the last word */
    memcpy(out, &range.header, sizeof range.header);
    struct columns columns;
    for (int64_t first = 0; first < how->f; first += CODEC_COLUMNS) {
        uint8_t code[CODEC_COLUMNS + 4] = {0}; /* zeros after the last column */
        columns_open(how, key, row, first, &columns);
        for (int64_t c = 0; c < columns.n && range.header != CODEC_NO_NUMBER; c++) {
            code[c] = codec_code(&range, columns.x[c], columns.draw[c], level);
        }
        codes_pack(bits, columns.n, code, out + sizeof range.header + first * bits / 8);
        if (how->residual != NULL) {
            lost_write(how, &range, first, &columns, code);
        }
    }
}

/* Residuals are the row's own. */
TARGET static void encode_row(const struct device_coding *how, const struct random_key *key, int64_t row, void *out)
{
    if (how->codec == DEVICE_CODEC_BF16) {
        bf16_encode(how, key, row, out);
    } else {
        integers_encode(how, key, row, codec_row_bytes(how->codec, how->f), out);
    }
}

TARGET static void integers_decode(int bits, int64_t f, const uint8_t *from, float *out)
{
    uint32_t header;
    memcpy(&header, from, sizeof header);
    int level = (1 << bits) - 1;
    const struct codec_range range = codec_range_read(header, level);
    const uint8_t *code = from + sizeof header;
    switch (bits) {
    case 8:
        for (int64_t c = 0; c < f; c++) {
            out[c] = codec_value(&range, code[c]);
        }
        return;
    case 4:
        for (int64_t c = 0; c < f; c++) {
            out[c] = codec_value(&range, code[c / 2] >> (c % 2 * 4) & 15);
        }
        return;
    default:
        for (int64_t c = 0; c < f; c++) {
            out[c] = codec_value(&range, code[c / 4] >> (c % 4 * 2) & 3);
        }
        return;
    }
}

TARGET static void decode_row(enum device_codec codec, int64_t f, const void *from, float *out)
{
    const uint16_t *half = from;
    if (codec != DEVICE_CODEC_BF16) {
        integers_decode(codec_bits(codec), f, from, out);
        return;
    }
    for (int64_t c = 0; c < f; c++) {
        out[c] = codec_from_bf16(half[c]);
    }
}

TARGET static void round_row(int64_t f, float *x, void *out)
{
    uint16_t *half = out;
    for (int64_t c = 0; c < f; c++) {
        x[c] = codec_round(x[c]);
    }
    for (int64_t c = 0; c < f && out != NULL; c++) {
        half[c] = (uint16_t)(codec_to_bits(x[c]) >> 16);
    }
    if (out != NULL && f % 2 != 0) {
        half[f] = 0;
    }
}
