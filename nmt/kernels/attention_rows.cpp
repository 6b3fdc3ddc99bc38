// Attention of all rows of ragged sentences, forward and backward. attention_rows.py describes the arguments.
//
// For each sentence and head, queries, keys and values are copied to fp32 scratch in which rows and columns are padded
// with zeros to multiples of LANES. Keys (in the backward pass values too) are also transposed, so that all products
// have the form of `product` below: numbers of one matrix times vectors of the other, without sums within a vector.
#include "kernels.h"

#ifdef _OPENMP
#include <omp.h>
#endif

constexpr long QUERIES = 64;  // queries of a sentence that are computed together

static long padded(long count) { return (count + LANES - 1) / LANES * LANES; }

template <class Number>
struct Rows {
    Number* numbers;
    long stride;
    Number* at(long row, long column = 0) const { return numbers + row * stride + column; }
};

struct Matrix : Rows<float> {  // in scratch; a row is a multiple of LANES numbers long
    Floats& vector(long row, long column) const { return *(Floats*)at(row, column); }
};

// Copy scale * from (rows, width), with zeros after the columns.
template <class Number>
static void copy(Matrix to, Rows<Number> from, long rows, long width, float scale = 1) {
    for (long row = 0; row < rows; row++)
        for (long i = 0; i < width; i += LANES) to.vector(row, i) = load(from.at(row, i), width - i) * scale;
}

template <class Number>
static void copy_back(Rows<Number> to, Matrix from, long rows, long width, float scale = 1) {
    for (long row = 0; row < rows; row++)
        for (long i = 0; i < width; i += LANES) store(to.at(row, i), from.vector(row, i) * scale, width - i);
}

// Interleave rows i and i + LANES / 2 of LANES rows. As often as LANES can be halved, this transposes them.
static inline void interleave(Floats (&x)[LANES]) {
    const Ints low = vector_of([](int lane) { return lane / 2 + lane % 2 * (int)LANES; }), high = low + (int)LANES / 2;
    Floats y[LANES];
    UNROLL for (long r = 0; r < LANES / 2; r++) {
        y[2 * r] = shuffled(x[r], x[r + LANES / 2], low);
        y[2 * r + 1] = shuffled(x[r], x[r + LANES / 2], high);
    }
    UNROLL for (long r = 0; r < LANES; r++) x[r] = y[r];
}

// The transpose of `from` (rows, width), with zeros behind its rows.
template <class Number>
static void transpose(Matrix to, Rows<Number> from, long rows, long width) {
    for (long row = 0; row < rows; row += LANES)
        for (long i = 0; i < width; i += LANES) {
            Floats x[LANES];
            UNROLL for (long r = 0; r < LANES; r++)
                x[r] = row + r < rows ? load(from.at(row + r, i), width - i) : Floats{};
            UNROLL for (long halves = LANES; halves > 1; halves /= 2) interleave(x);
            UNROLL for (long r = 0; r < LANES; r++) to.vector(i + r, row) = x[r];
        }
}

// The first operand of a product: a matrix in scratch, or its transpose.
struct Left {
    const float* numbers;
    long row_stride, column_stride;
    float at(long row, long column) const { return numbers[row * row_stride + column * column_stride]; }
};

// R rows and V vectors of `to` = left (R, depth) times right (depth, V * LANES), plus `to` if `add`.
template <int R, int V>
static void tile(Matrix to, Left left, Matrix right, long depth, bool add) {
    Floats sums[R][V];
    for (int r = 0; r < R; r++)
        for (int v = 0; v < V; v++) sums[r][v] = add ? to.vector(r, v * LANES) : Floats{};
    for (long i = 0; i < depth; i++)
        UNROLL for (int r = 0; r < R; r++)
            UNROLL for (int v = 0; v < V; v++) sums[r][v] += left.at(r, i) * right.vector(i, v * LANES);
    for (int r = 0; r < R; r++)
        for (int v = 0; v < V; v++) to.vector(r, v * LANES) = sums[r][v];
}

template <int R, int V, class... Arguments>
static void tile_of(long rows, Arguments... arguments) {
    if (rows == R) return tile<R, V>(arguments...);
    if constexpr (R > 1) tile_of<R - 1, V>(rows, arguments...);
}

// `to` (rows, columns) = left (rows, depth) times right (depth, columns), plus `to` if `add`; columns are padded.
template <int V = REGISTERS / 8>
static void product(Matrix to, Left left, Matrix right, long rows, long columns, long depth, bool add = false) {
    constexpr int R = V == 4 ? 6 : V == 1 ? 12 : REGISTERS == 32 ? 8 : 6;
    const long tiles = (rows + R - 1) / R, done = columns / (V * LANES) * (V * LANES);
    for (long column = 0; column < done; column += V * LANES)
        for (long t = 0, row = 0, next; t < tiles; t++, row = next) {
            next = (t + 1) * rows / tiles;
            Left part = left;
            part.numbers += row * left.row_stride;
            const Matrix to_part = {to.at(row, column), to.stride}, right_part = {right.at(0, column), right.stride};
            tile_of<R, V>(next - row, to_part, part, right_part, depth, add);
        }
    if constexpr (V > 1) {
        const Matrix rest_of_to = {to.at(0, done), to.stride}, rest_of_right = {right.at(0, done), right.stride};
        if (done < columns) product<V / 2>(rest_of_to, left, rest_of_right, rows, columns - done, depth, add);
    }
}

// One head of one sentence, and its scratch.
template <class Number>
struct Head {
    const RowsAttention& a;
    long head, first_query, first_key, queries, keys, width, columns;
    Matrix k, k_transposed, v, v_transposed, q, g, weights, weights_gradient, k_gradient, v_gradient;

    Head(const RowsAttention& a, long sentence, long head, float* scratch) : a(a), head(head), width(padded(a.width)) {
        first_query = a.query_offsets[sentence], queries = a.query_offsets[sentence + 1] - first_query;
        first_key = a.key_offsets[sentence], keys = a.key_offsets[sentence + 1] - first_key;
        columns = padded(keys);
        for (Matrix* m : {&k, &v, &k_gradient, &v_gradient}) *m = {scratch, width}, scratch += columns * width;
        for (Matrix* m : {&k_transposed, &v_transposed}) *m = {scratch, columns}, scratch += columns * width;
        for (Matrix* m : {&q, &g}) *m = {scratch, width}, scratch += QUERIES * width;
        for (Matrix* m : {&weights, &weights_gradient}) *m = {scratch, columns}, scratch += QUERIES * columns;
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
        Floats largest_in_lane = Floats{} - INFINITY, sums{};
        for (long i = 0; i < columns; i += LANES)
            largest_in_lane = larger(largest_in_lane, first(count - i, *(Floats*)(scores + i), -INFINITY));
        const float largest = count ? largest_of(largest_in_lane) : 0;
        for (long i = 0; i < columns; i += LANES)
            sums += *(Floats*)(scores + i) = first(count - i, exponential(*(Floats*)(scores + i) - largest), 0);
        const float total = sum_of(sums);
        for (long i = 0; i < columns; i += LANES) *(Floats*)(scores + i) *= 1 / total;
        a.logsumexp[row * a.heads + head] = largest + std::log(total);
    }

    void backward() const {
        copy(k, rows(a.keys, a.key_stride, first_key), keys, a.width);
        transpose(k_transposed, k, keys, a.width);
        transpose(v_transposed, rows(a.values, a.key_stride, first_key), keys, a.width);
        std::fill(k_gradient.numbers, k_gradient.at(keys), 0), std::fill(v_gradient.numbers, v_gradient.at(keys), 0);
        for (long query = 0; query < queries; query += QUERIES) {
            const long count = std::min(QUERIES, queries - query), row = first_query + query;
            const long seen = visible(query + count - 1);
            copy(q, rows(a.queries, a.query_stride, row), count, a.width, scale());
            copy(g, rows(a.output, a.output_stride, row), count, a.width);
            product(weights, {q.numbers, width, 1}, k_transposed, count, padded(seen), a.width);
            product(weights_gradient, {g.numbers, width, 1}, v_transposed, count, padded(seen), a.width);
            for (long i = 0; i < count; i++) through_softmax(i, visible(query + i), padded(seen), row + i);
            product(v_gradient, {weights.numbers, 1, columns}, g, seen, width, count, true);
            product(k_gradient, {weights_gradient.numbers, 1, columns}, q, seen, width, count, true);
            product(q, {weights_gradient.numbers, columns, 1}, k, count, width, seen);
            copy_back(rows(a.query_gradient, a.query_gradient_stride, row), q, count, a.width, scale());
        }
        copy_back(rows(a.key_gradient, a.key_gradient_stride, first_key), k_gradient, keys, a.width);
        copy_back(rows(a.value_gradient, a.key_gradient_stride, first_key), v_gradient, keys, a.width);
    }

    // Write the gradient of the scores of a row: weights * (g - sum of weights * g), with g that of the weights.
    void through_softmax(long i, long count, long columns, long row) const {
        const float logsumexp = a.logsumexp[row * a.heads + head];
        Floats sums{};
        for (long j = 0; j < columns; j += LANES) {
            weights.vector(i, j) = first(count - j, exponential(weights.vector(i, j) - logsumexp), 0);
            sums += weights.vector(i, j) * weights_gradient.vector(i, j);
        }
        const float sum = sum_of(sums);
        for (long j = 0; j < columns; j += LANES)
            weights_gradient.vector(i, j) = weights.vector(i, j) * (weights_gradient.vector(i, j) - sum);
    }
};

// Numbers of scratch for each thread, for sentences of at most `longest` keys.
static long scratch_of(long width, long longest) {
    return padded(longest) * (6 * padded(width) + 2 * QUERIES) + 2 * QUERIES * padded(width);
}

template <class Number>
static void each_head(const RowsAttention& a, bool is_backward) {
    const long items = a.sentences * a.heads, size = scratch_of(a.width, a.longest);
    const Space space(a.threads * size);
#pragma omp parallel num_threads(a.threads) if (a.threads > 1)
    {
        float* scratch = space.numbers;
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

void attend_rows(const RowsAttention& rows) { each_head<float>(rows, false); }

extern "C" {
long attend_rows_fp32(const RowsAttention& rows, bool is_backward) {
    return unless_out_of_ram([&] { return each_head<float>(rows, is_backward), 0; });
}
long attend_rows_bf16(const RowsAttention& rows, bool is_backward) {
    return unless_out_of_ram([&] { return each_head<Bfloat16>(rows, is_backward), 0; });
}
}
