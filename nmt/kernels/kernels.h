// Types and functions of all CPU kernels, in the vector extensions of GCC and Clang. The Python modules, such as
// native.py, describe the arguments.
#pragma once
#if __x86_64__
#include <immintrin.h>
#endif

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#if __AVX512F__
constexpr long LANES = 16, REGISTERS = 32;
#elif __AVX__
constexpr long LANES = 8, REGISTERS = 16;
#elif __ARM_NEON
constexpr long LANES = 4, REGISTERS = 32;
#else
constexpr long LANES = 4, REGISTERS = 16;
#endif
#define UNROLL _Pragma("GCC unroll 16")
typedef float Floats __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int Ints __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef unsigned short Halves __attribute__((vector_size(2 * LANES), aligned(2), may_alias));

static inline Floats larger(Floats x, Floats y) { return x > y ? x : y; }

// A constant operand, hidden from GCC: it compiles `x > y ? x : y` to one instruction unless x or y is a constant.
static inline float constant(float x) { return x; }
static inline Floats constant(Floats x) {
#if __x86_64__
    asm("" : "+v"(x));
#endif
    return x;
}

static inline Ints truncated(Floats x) { return __builtin_convertvector(x, Ints); }
static inline Floats with_bits(Ints bits) { return (Floats)bits; }
static inline int truncated(float x) { return x; }
static inline float with_bits(int bits) {
    float number;
    return std::memcpy(&number, &bits, sizeof number), number;
}

static inline float nearest(float x) { return std::nearbyint(x); }
static inline Floats nearest(Floats x) {
    UNROLL for (long lane = 0; lane < LANES; lane++) x[lane] = std::nearbyint(x[lane]);
    return x;
}

// exp of a number or of each number of a vector, with the polynomial of Cephes for exp(r), |r| <= log(2) / 2: nearly as
// precise as fp32. Below -88 it is 0, above 88 exp(88), NaN remains. Loops over numbers are vectorized.
template <class Number>
static inline Number exponential(Number x) {
    const Number most = constant(Number{} + 88), least = constant(Number{} - 88);
    x = most < x ? most : x;
    x = least > x ? least : x;
    const Number n = nearest(x * 1.44269504f), r = x - n * 0.693359375f + n * 2.12194440e-4f;
    Number y = r * 1.9875691500e-4f + 1.3981999507e-3f;
    y = ((y * r + 8.3334519073e-3f) * r + 4.1665795894e-2f) * r + 1.6666665459e-1f;
    return ((y * r + 5.0000001201e-1f) * r * r + r + 1) * with_bits((truncated(n) + 127) << 23);  // 2^n; 0 for n = -127
}

#if __GLIBC__ && __x86_64__ && !__clang__
// Loops with the function of glibc's libmvec are as fast or 3 % faster.
extern "C" __attribute__((simd("notinbranch"))) float expf(float);
static inline float exponential(float x) { return expf(x); }
#endif

// The numbers with these constant indices in the concatenation of x and y.
template <class Vector>
static inline __attribute__((always_inline)) Vector shuffled(Vector x, Vector y, Ints indices) {
#if __clang__
    Vector result;
    UNROLL for (long lane = 0; lane < LANES; lane++)
        result[lane] = indices[lane] < LANES ? x[indices[lane]] : y[indices[lane] - LANES];
    return result;
#else
    return __builtin_shuffle(x, y, indices);
#endif
}

// The vector f(0), f(1), … If a loop filled it, GCC would recompute a vector of 16 lanes at each use.
template <class Function, int... lane>
static inline Ints vector_of(Function f, std::integer_sequence<int, lane...>) {
    return Ints{f(lane)...};
}
template <class Function>
static inline Ints vector_of(Function f) {
    return vector_of(f, std::make_integer_sequence<int, LANES>());
}

// The first `count` numbers of x, followed by `others`.
static inline Floats first(long count, Floats x, float others) {
    return vector_of([](int lane) { return lane; }) < (int)count ? x : Floats{} + others;
}

// Reduce all numbers of a vector by a function of two vectors.
template <int distance = LANES / 2, class Vector, class Function>
static inline auto reduce(Vector x, Function function) {
    if constexpr (distance == 0) return x[0];
    else {
        const Vector other = shuffled(x, x, vector_of([](int lane) { return lane ^ distance; }));
        return reduce<distance / 2>(function(x, other), function);
    }
}
static inline float largest_of(Floats x) { return reduce(x, larger); }
static inline float sum_of(Floats x) {
    return reduce(x, [](Floats left, Floats right) { return left + right; });
}
static inline bool any(Ints x) {
    return reduce(x, [](Ints left, Ints right) { return left | right; });
}

struct Bfloat16 {
    unsigned short bits;  // the upper half of a float
    operator float() const {
        const unsigned all = (unsigned)bits << 16;
        float number;
        return std::memcpy(&number, &all, sizeof number), number;
    }
    Bfloat16& operator=(float x) {  // to the nearest, ties to even
        unsigned all;
        std::memcpy(&all, &x, sizeof all);
        bits = (x != x ? 0x7fc00000 : all + 0x7fff + (all >> 16 & 1)) >> 16;
        return *this;
    }
};

// Load or store LANES numbers; at the end of a row, only `count` of them, with zeros for the rest.
static inline Floats load(const float* from) { return *(const Floats*)from; }
static inline Floats load(const Bfloat16* from) {
    return (Floats)(__builtin_convertvector(*(const Halves*)from, Ints) << 16);
}
static inline void store(float* to, Floats x) { *(Floats*)to = x; }
static inline void store(Bfloat16* to, Floats x) {  // to the nearest, ties to even
    const Ints bits = (Ints)x, upper = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    *(Halves*)to = __builtin_convertvector(x != x ? Ints{} + 0x7fc0 : upper, Halves);
}
template <class Number>
static inline Floats load(const Number* from, long count) {
    if (count >= LANES) return load(from);
    Number numbers[LANES] = {};
    std::copy(from, from + count, numbers);
    return load(numbers);
}
template <class Number>
static inline void store(Number* to, Floats x, long count) {
    if (count >= LANES) return store(to, x);
    Number numbers[LANES];
    store(numbers, x);
    std::copy(numbers, numbers + count, to);
}

// Uninitialized numbers, aligned to a cache line, so that no vector of them crosses two lines.
struct Space {
    float* numbers;

    explicit Space(long count) : numbers((float*)std::aligned_alloc(64, (count / 16 + 1) * 64)) {
        if (!numbers) throw std::bad_alloc();
    }
    Space(const Space&) = delete;
    ~Space() { std::free(numbers); }
};

// Return the result of a function that Python calls; -1 if the RAM is full.
template <class Function>
static long unless_out_of_ram(Function function) {
    try {
        return function();
    } catch (const std::bad_alloc&) {
        return -1;
    }
}

struct Product {  // with a constant weight
    const void* weights;
    const float *scales, *bias;  // of each output
    const int* start;            // initial value of the sum of each output
    long inputs, outputs;
    void (*function)(const Product&, float* to, const float* x, long rows, bool relu);

    // Write the outputs (rows, outputs) for x (rows, inputs); then ReLU if `relu`.
    void multiply(float* to, const float* x, long rows, bool relu = false) const { function(*this, to, x, rows, relu); }
};

struct RowsAttention {                                     // see attention_rows.cpp and attention_rows.py
    void *queries, *keys, *values, *output;                // output: in the backward pass its gradient
    void *query_gradient, *key_gradient, *value_gradient;  // in the forward pass unused
    float* logsumexp;                                      // (rows, heads)
    const long *query_offsets, *key_offsets;
    long query_stride, key_stride, output_stride, query_gradient_stride, key_gradient_stride;
    long sentences, heads, width, longest, threads, causal;
};

void attend_rows(const RowsAttention& rows);  // forward, in fp32

// Places of hypotheses, `beam` in each sentence, and the cells that they attend to: a key and a value of `dim` numbers.
template <class Number>
struct Places {
    const long *rows, *lengths;  // places whose tokens are computed, and cells that each sentence attends to
    const int* ancestors;        // (sentences, beam, 2, longest): first the places whose cells are read; or none
    long beam, longest;
    Number* cells;                                        // of the first layer
    long layer_stride, position_stride, sentence_stride;  // in cells
};

struct Layer {
    // query_key_value and output of self-attention, query and output of attention to the source, inner and outer
    const Product *query_key_value, *output, *query, *source_output, *inner, *outer;
    const float* norms[3][2];  // weight and bias of the norm of each sublayer; an encoder has no second one
};

struct Stack {  // the layers of an encoder or a decoder
    const Layer* layers;
    const float* last_norm[2];  // none with post-norm
    const float* rotations;     // (positions, head width) cosines and sines; none without rotary positions
    long count, dim, heads, inner;
    enum Activation : long { RELU, GELU, SWISH, SWIGLU } activation;
    long is_pre_norm;
    float epsilon;
};

struct Embedding {
    const float *tokens, *positions;  // (vocabulary, dim); (positions, dim) to add, or none
    long last;                        // position in that table, used for all later positions
    float scale;                      // of tokens

    void write(float* to, long token, long position, long dim) const {
        const float *vector = tokens + token * dim, *added = positions + std::min(position, last) * dim;
        for (long i = 0; i < dim; i++) to[i] = vector[i] * scale + (positions ? added[i] : 0);
    }
};

struct Sentences {  // one after the other
    const long *ids, *offsets;  // (count + 1) first row of each, and the number of rows
    long count;

    long rows() const { return offsets[count]; }
    long longest() const {
        long most = 0;
        for (long i = 0; i < count; i++) most = std::max(most, offsets[i + 1] - offsets[i]);
        return most;
    }
};

struct Source {  // what targets attend to in forced decoding
    const Sentences& sentences;
    const float* memory;               // (rows, dim)
    const Product* const* key_values;  // of each layer, from memory
    float* weights;  // of each pair (rows of the target, rows of the source): the mean of all heads is added; or none
};

// Write the memory x (rows, dim) of sources, or, with a source, the hidden states of targets.
void pass_rows(
    const Stack& stack, const Embedding& embedding, const Sentences& sentences, float* x, const Source* source
);

// Write the hidden states x (rows, dim) of the newest token of each hypothesis, from the newest tokens in all places.
template <class Number>
void decode(
    const Stack& stack, const Embedding& embedding, const long* tokens, const Places<Number>& target,
    const Places<Number>& source, float* x, long rows
);
