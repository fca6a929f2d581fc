/* Payload rows in low precision: one thread for each row. */
#include "models/device/codec.h"
#include "models/cpu/cpu.h"

void cpu_rows_encode(struct device *device, const struct device_coding *how, void *out)
{
    const struct cpu_device *cpu = cpu_device(device);
    const struct random_key key = device_key(&how->key, how->now);
    int64_t row_bytes = codec_row_bytes(how->codec, how->f);
    CPU_LOOP(
        cpu, how->n_row * how->f >= CPU_PARALLEL_MIN, for (int64_t r = 0; r < how->n_row; r++) {
            struct device_coding row = *how;
            int64_t at = how->rows != NULL ? how->rows[r] : r,
                    place = how->residual_rows != NULL ? how->residual_rows[r] : at;
            if (how->residual != NULL) {
                row.residual += place * how->f;
                row.residual_out += place * how->f;
            }
            cpu->kernels->encode_row(&row, &key, at, (char *)out + r * row_bytes);
        });
}

void cpu_rows_decode(struct device *device, enum device_codec codec, int64_t n_row, int64_t f, const void *from,
                     float *out)
{
    const struct cpu_device *cpu = cpu_device(device);
    int64_t row_bytes = codec_row_bytes(codec, f);
    CPU_LOOP(
        cpu, n_row * f >= CPU_PARALLEL_MIN, for (int64_t r = 0; r < n_row; r++) {
            cpu->kernels->decode_row(codec, f, (const char *)from + r * row_bytes, out + r * f);
        });
}

void cpu_rows_round(struct device *device, int64_t n_row, int64_t f, float *x, void *out)
{
    const struct cpu_device *cpu = cpu_device(device);
    int64_t row_bytes = codec_row_bytes(DEVICE_CODEC_BF16, f);
    CPU_LOOP(
        cpu, n_row * f >= CPU_PARALLEL_MIN, for (int64_t r = 0; r < n_row; r++) {
            cpu->kernels->round_row(f, x + r * f, out != NULL ? (char *)out + r * row_bytes : NULL);
        });
}
