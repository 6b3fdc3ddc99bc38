// Attention of all rows of ragged sentences, forward and backward, on CPUs with AVX-512. native.py compiles this file
// and describes the arguments.
//
// For each sentence and head, queries, keys and values are copied to fp32 scratch in which rows and columns are padded
// with zeros to multiples of 16. Keys (in the backward pass values too) are also transposed, so that all products have
// the form of `product` below: numbers of one matrix times vectors of the other, without sums within a vector.
#include "kernels.h"

#ifdef _OPENMP
#include <omp.h>
#endif

#define UNROLL _Pragma("GCC unroll 16")
constexpr long QUERIES = 64;  // of a sentence that are computed together

static long padded(long count) { return (count + LANES - 1) / LANES * LANES; }

static __m512 load(const float* from, __mmask16 mask) { return _mm512_maskz_loadu_ps(mask, from); }
static void store(float* to, __mmask16 mask, __m512 x) { _mm512_mask_storeu_ps(to, mask, x); }

static __m512 load(const Bfloat16* from, __mmask16 mask) {
    return (__m512)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from)), 16);
}
static void store(Bfloat16* to, __mmask16 mask, __m512 x) {  // to the nearest, ties to even
    const __m512i bits = (__m512i)x, odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    rounded = _mm512_mask_set1_epi32(rounded, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), 0x7fc00000);
    _mm256_mask_storeu_epi16(to, mask, _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
}

template <class Number>
struct Rows {
    Number* numbers;
    long stride;
    Number* at(long row, long column = 0) const { return numbers + row * stride + column; }
};
typedef Rows<float> Matrix;  // in scratch; a row is a multiple of 16 numbers long

// Rows of scale * from, (rows, width), with zeros around them.
template <class Number>
static void copy(Matrix to, Rows<Number> from, long rows, long width, float scale = 1) {
    for (long row = 0; row < rows; row++)
        for (long i = 0; i < width; i += LANES)
            *(__m512_u*)to.at(row, i) = load(from.at(row, i), lanes(width - i)) * _mm512_set1_ps(scale);
}

template <class Number>
static void copy_back(Rows<Number> to, Matrix from, long rows, long width, float scale = 1) {
    for (long row = 0; row < rows; row++)
        for (long i = 0; i < width; i += LANES)
            store(to.at(row, i), lanes(width - i), *(__m512_u*)from.at(row, i) * _mm512_set1_ps(scale));
}

// Interleave rows i and i + 8 of 16 rows. Four times this transposes them.
static inline __attribute__((always_inline)) void interleave(const __m512 (&from)[LANES], __m512 (&to)[LANES]) {
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
    UNROLL for (long r = 0; r < LANES / 2; r++) {
        to[2 * r] = _mm512_permutex2var_ps(from[r], low, from[r + 8]);
        to[2 * r + 1] = _mm512_permutex2var_ps(from[r], high, from[r + 8]);
    }
}

// The transpose of `from` (rows, width), with zeros behind its rows.
template <class Number>
static void transpose(Matrix to, Rows<Number> from, long rows, long width) {
    for (long row = 0; row < rows; row += LANES)
        for (long i = 0; i < width; i += LANES) {
            const __mmask16 mask = lanes(width - i);
            __m512 x[LANES], y[LANES];
            UNROLL for (long r = 0; r < LANES; r++) x[r] = load(from.at(row + r, i), row + r < rows ? mask : 0);
            interleave(x, y), interleave(y, x), interleave(x, y), interleave(y, x);
            UNROLL for (long r = 0; r < LANES; r++) *(__m512_u*)to.at(i + r, row) = x[r];
        }
}

// The first operand of a product: a matrix in scratch, or its transpose.
struct Left {
    const float* numbers;
    long row_stride, column_stride;
    float at(long row, long column) const { return numbers[row * row_stride + column * column_stride]; }
};

// R rows and V vectors of `to` = left (R, depth) times right (depth, V * 16), plus `to` if `add`.
template <int R, int V>
static void tile(float* to, long stride, Left left, const float* right, long right_stride, long depth, bool add) {
    __m512 sums[R][V];
    for (int r = 0; r < R; r++)
        for (int v = 0; v < V; v++)
            sums[r][v] = add ? *(__m512_u*)(to + r * stride + v * LANES) : _mm512_setzero_ps();
    for (long i = 0; i < depth; i++, right += right_stride)
        UNROLL for (int r = 0; r < R; r++)
            UNROLL for (int v = 0; v < V; v++)
                sums[r][v] += _mm512_set1_ps(left.at(r, i)) * *(__m512_u*)(right + v * LANES);
    for (int r = 0; r < R; r++)
        for (int v = 0; v < V; v++) *(__m512_u*)(to + r * stride + v * LANES) = sums[r][v];
}

template <int R, int V, class... Arguments>
static void tile_of(long rows, Arguments... arguments) {
    if (rows == R) return tile<R, V>(arguments...);
    if constexpr (R > 1) tile_of<R - 1, V>(rows, arguments...);
}

// `to` (rows, columns) = left (rows, depth) times right (depth, columns), plus `to` if `add`; columns are padded.
template <int V = 4>
static void product(Matrix to, Left left, Matrix right, long rows, long columns, long depth, bool add = false) {
    constexpr int R = V == 4 ? 6 : V == 2 ? 8 : 12;
    const long tiles = (rows + R - 1) / R, done = columns / (V * LANES) * (V * LANES);
    for (long column = 0; column < done; column += V * LANES)
        for (long t = 0, row = 0, next; t < tiles; t++, row = next) {
            next = (t + 1) * rows / tiles;
            Left part = left;
            part.numbers += row * left.row_stride;
            const float* columns_of_right = right.at(0, column);
            tile_of<R, V>(next - row, to.at(row, column), to.stride, part, columns_of_right, right.stride, depth, add);
        }
    if constexpr (V > 1) {
        const Matrix rest_of_to = {to.at(0, done), to.stride}, rest_of_right = {right.at(0, done), right.stride};
        if (done < columns) product<V / 2>(rest_of_to, left, rest_of_right, rows, columns - done, depth, add);
    }
}

// exp of numbers up to 80, with the polynomial of Cephes for exp(r), |r| <= log(2) / 2: nearly as precise as fp32.
static __m512 exp(__m512 x) {
    x = _mm512_max_ps(_mm512_set1_ps(-104), x);  // NaN remains
    const __m512 n = _mm512_roundscale_ps(x * 1.44269504f, 0), r = x - n * 0.693359375f + n * 2.12194440e-4f;
    __m512 y = r * 1.9875691500e-4f + 1.3981999507e-3f;
    y = ((y * r + 8.3334519073e-3f) * r + 4.1665795894e-2f) * r + 1.6666665459e-1f;
    return _mm512_scalef_ps((y * r + 5.0000001201e-1f) * r * r + r + 1, n);
}

// One head of one sentence, and its scratch.
template <class Number>
struct Head {
    const RowsAttention& a;
    long head, first_query, first_key, queries, keys, width, columns;
    Matrix k, k_transposed, v, v_transposed, q, g, weights, to_weights, to_k, to_v;

    Head(const RowsAttention& a, long sentence, long head, float* scratch) : a(a), head(head), width(padded(a.width)) {
        first_query = a.query_offsets[sentence], queries = a.query_offsets[sentence + 1] - first_query;
        first_key = a.key_offsets[sentence], keys = a.key_offsets[sentence + 1] - first_key;
        columns = padded(keys);
        for (Matrix* m : {&k, &v, &to_k, &to_v}) *m = {scratch, width}, scratch += columns * width;
        for (Matrix* m : {&k_transposed, &v_transposed}) *m = {scratch, columns}, scratch += columns * width;
        for (Matrix* m : {&q, &g}) *m = {scratch, width}, scratch += QUERIES * width;
        for (Matrix* m : {&weights, &to_weights}) *m = {scratch, columns}, scratch += QUERIES * columns;
    }

    Rows<Number> rows(void* numbers, long stride, long first) const {
        return {(Number*)numbers + first * stride + head * a.width, stride};
    }
    float scale() const { return 1 / std::sqrt((float)a.width); }
    long visible(long query) const { return a.causal ? std::min(query + 1, keys) : keys; }

    void forward() const {
        transpose(k_transposed, rows(a.keys, a.key_stride, first_key), keys, a.width);
        copy(v, rows(a.values, a.key_stride, first_key), keys, a.width);
        for (long query = 0; query < queries; query += QUERIES) {
            const long count = std::min(QUERIES, queries - query), row = first_query + query;
            const long seen = visible(query + count - 1);
            copy(q, rows(a.queries, a.query_stride, row), count, a.width, scale());
            product(weights, {q.numbers, width, 1}, k_transposed, count, padded(seen), a.width);
            for (long i = 0; i < count; i++) softmax(weights.at(i), visible(query + i), padded(seen), row + i);
            product(g, {weights.numbers, columns, 1}, v, count, width, seen);
            copy_back(rows(a.output, a.output_stride, row), g, count, a.width);
        }
    }

    void softmax(float* scores, long count, long columns, long row) const {
        Floats largest_of = Floats{} - INFINITY, total_of{};
        for (long i = 0; i < columns; i += LANES)
            largest_of = _mm512_mask_max_ps(largest_of, lanes(count - i), largest_of, *(__m512_u*)(scores + i));
        const float largest = count ? _mm512_reduce_max_ps(largest_of) : 0;
        for (long i = 0; i < columns; i += LANES) total_of += exponentials(scores + i, largest, count - i);
        const float total = _mm512_reduce_add_ps(total_of);
        for (long i = 0; i < columns; i += LANES) *(Floats*)(scores + i) *= 1 / total;
        a.logsumexp[row * a.heads + head] = largest + std::log(total);
    }

    // 16 scores x become exp(x - subtracted), behind `count` 0.
    static Floats exponentials(float* scores, float subtracted, long count) {
        const __m512 exps = exp(*(__m512_u*)scores - _mm512_set1_ps(subtracted));
        return *(Floats*)scores = _mm512_maskz_mov_ps(lanes(count), exps);
    }

    void backward() const {
        copy(k, rows(a.keys, a.key_stride, first_key), keys, a.width);
        transpose(k_transposed, rows(a.keys, a.key_stride, first_key), keys, a.width);
        transpose(v_transposed, rows(a.values, a.key_stride, first_key), keys, a.width);
        std::fill(to_k.numbers, to_k.at(keys), 0), std::fill(to_v.numbers, to_v.at(keys), 0);
        for (long query = 0; query < queries; query += QUERIES) {
            const long count = std::min(QUERIES, queries - query), row = first_query + query;
            const long seen = visible(query + count - 1);
            copy(q, rows(a.queries, a.query_stride, row), count, a.width, scale());
            copy(g, rows(a.output, a.output_stride, row), count, a.width);
            product(weights, {q.numbers, width, 1}, k_transposed, count, padded(seen), a.width);
            product(to_weights, {g.numbers, width, 1}, v_transposed, count, padded(seen), a.width);
            for (long i = 0; i < count; i++) through_softmax(i, visible(query + i), padded(seen), row + i);
            product(to_v, {weights.numbers, 1, columns}, g, seen, width, count, true);
            product(to_k, {to_weights.numbers, 1, columns}, q, seen, width, count, true);
            product(q, {to_weights.numbers, columns, 1}, k, count, width, seen);
            copy_back(rows(a.query_gradient, a.query_gradient_stride, row), q, count, a.width, scale());
        }
        copy_back(rows(a.key_gradient, a.key_gradient_stride, first_key), to_k, keys, a.width);
        copy_back(rows(a.value_gradient, a.key_gradient_stride, first_key), to_v, keys, a.width);
    }

    // The gradient of a row's scores: weights * (to_weights - sum of weights * to_weights).
    void through_softmax(long i, long count, long columns, long row) const {
        const float subtracted = a.logsumexp[row * a.heads + head];
        Floats sums{};
        for (long j = 0; j < columns; j += LANES)
            sums += exponentials(weights.at(i, j), subtracted, count - j) * *(Floats*)to_weights.at(i, j);
        const float sum = _mm512_reduce_add_ps(sums);
        for (long j = 0; j < columns; j += LANES)
            *(Floats*)to_weights.at(i, j) = *(Floats*)weights.at(i, j) * (*(Floats*)to_weights.at(i, j) - sum);
    }
};

// Numbers of scratch for each thread, for sentences of at most `longest` keys.
static long scratch_of(long width, long longest) {
    return padded(longest) * (6 * padded(width) + 2 * QUERIES) + 2 * QUERIES * padded(width);
}

template <class Number>
static void each_head(const RowsAttention& a, bool is_backward) {
    const long items = a.sentences * a.heads, size = scratch_of(a.width, a.longest);
#pragma omp parallel num_threads(a.threads) if (a.threads > 1)
    {
        float* scratch = a.scratch;
#ifdef _OPENMP
        scratch += omp_get_thread_num() * size;
#endif
#pragma omp for schedule(dynamic, std::clamp(items / (8 * a.threads), 1L, a.heads))
        for (long item = 0; item < items; item++) {
            const Head<Number> head(a, item / a.heads, item % a.heads, scratch);
            is_backward ? head.backward() : head.forward();
        }
    }
}

extern "C" {
long attention_scratch(long width, long longest) { return scratch_of(width, longest); }
void attend_rows_fp32(const RowsAttention& rows, bool is_backward) { each_head<float>(rows, is_backward); }
void attend_rows_bf16(const RowsAttention& rows, bool is_backward) { each_head<Bfloat16>(rows, is_backward); }
}
