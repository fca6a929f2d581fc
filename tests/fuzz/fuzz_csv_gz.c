/* Any bytes as a .csv.gz table: as they are, and compressed first, since hardly any input would pass the checksum. */
#include "tests/fuzz/input_file.h"

#include "partition/files/csv_gz.h"
#include "protocol/base/log.h"

#include <zlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void read_table(const char *path, enum npy_type type)
{
    struct npy table;
    if (csv_gz_table(path, type, -1, &table) == STATUS_OK) {
        ASSERT(table.n_value == table.shape[0] * table.shape[1]);
        npy_close(&table);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    read_table(input_file(data, n_bytes), NPY_TYPE_I64);
    uint8_t *packed = malloc(n_bytes + 1024);
    z_stream stream = {
        .next_in = (Bytef *)data, .avail_in = (uInt)n_bytes, .next_out = packed, .avail_out = (uInt)n_bytes + 1024};
    if (deflateInit2(&stream, 0, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK ||
        deflate(&stream, Z_FINISH) != Z_STREAM_END) {
        abort();
    }
    const char *path = input_file(packed, stream.total_out);
    deflateEnd(&stream);
    free(packed);
    read_table(path, NPY_TYPE_I64);
    read_table(path, NPY_TYPE_F32);
    return 0;
}
