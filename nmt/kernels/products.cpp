// Products with constant weights. constant_products.py describes the arguments.
#include "kernels.h"

// The size of a tile of a product: its sums, an input of each row and a vector of weights fill all registers.
constexpr long VECTORS = REGISTERS / 8, ROWS = (REGISTERS - 1) / (VECTORS + 1), WIDTH = VECTORS * LANES;
constexpr long INPUT_ROWS = 16 * ROWS;                  // rows whose converted inputs stay in the cache
constexpr long AMX_INPUT_ROWS = 128;                   // the same, with AMX
typedef int Word __attribute__((may_alias));
typedef signed char Bytes __attribute__((vector_size(2 * LANES), aligned(1), may_alias));
typedef short Shorts __attribute__((vector_size(4 * LANES)));

// A precision packs DEPTH inputs of a row into 32 bits; `load` returns as many weights of an output in each lane, and
// `add` adds their products. If possible, a tile has at least SUMS sums: so many additions are in flight at a time.
// Besides the sums, registers hold all weights of a tile if BY_ROW (`add` itself may need a register), else its inputs.
struct FP32 {
    typedef float Input;
    typedef Floats Sums;
    static constexpr long DEPTH = 1, SUMS = 8;
    static constexpr bool BY_ROW = false;
    static Ints load(const void* weights, long vector) { return ((const Ints*)weights)[vector]; }
    static Sums add(Sums sums, Ints x, Ints w) { return sums + (Floats)x * (Floats)w; }
    static float convert(float* to, const float* x, long count) { return std::copy(x, x + count, to), 1; }
};
struct BF16 : FP32 {
    typedef Bfloat16 Input;
    static constexpr long DEPTH = 2;
    static constexpr bool BY_ROW = true;
#if __AVX512BF16__
    static Sums add(Sums sums, Ints x, Ints w) { return _mm512_dpbf16_ps(sums, (__m512bh)x, (__m512bh)w); }
    static float convert(Input* to, const float* x, long count) {
        for (long i = 0; i < count; i += LANES)
            _mm256_storeu_si256((__m256i*)(to + i), (__m256i)_mm512_cvtneps_pbh(*(Floats*)(x + i)));
        return 1;
    }
#else
    static Sums add(Sums sums, Ints x, Ints w) {
        sums += (Floats)(x << 16) * (Floats)(w << 16);
        return sums + (Floats)(x & 0xffff0000) * (Floats)(w & 0xffff0000);
    }
    static float convert(Input* to, const float* x, long count) { return std::copy(x, x + count, to), 1; }
#endif
};
struct INT8 {
    typedef Ints Sums;
    static constexpr bool BY_ROW = true;
#if __ARM_FEATURE_DOTPROD
    typedef signed char Input;
    static constexpr long DEPTH = 4, SUMS = 8;
    static constexpr int ZERO_POINT = 0;
    static Ints load(const void* weights, long vector) { return ((const Ints*)weights)[vector]; }
    static Sums add(Sums sums, Ints x, Ints w) {
        // GCC would copy the sums of an intrinsic function between registers
        asm("sdot %0.4s, %1.16b, %2.16b" : "+w"(sums) : "w"(x), "w"(w));
        return sums;
    }
#elif __AVX512VNNI__ || (__AVXVNNI__ && !__AVX512F__)
    typedef unsigned char Input;
    static constexpr long DEPTH = 4, SUMS = 8;
    static constexpr int ZERO_POINT = 128;  // of inputs, which the instruction takes without a sign
    static Ints load(const void* weights, long vector) { return ((const Ints*)weights)[vector]; }
    static Sums add(Sums sums, Ints x, Ints w) {
#if __AVX512F__
        return (Ints)_mm512_dpbusd_epi32((__m512i)sums, (__m512i)x, (__m512i)w);
#else
        return (Ints)_mm256_dpbusd_avx_epi32((__m256i)sums, (__m256i)x, (__m256i)w);
#endif
    }
#else  // in 16 bits
    typedef short Input;
    static constexpr long DEPTH = 2, SUMS = 4;
    static constexpr int ZERO_POINT = 0;
    static Ints load(const void* weights, long vector) {
        return (Ints)__builtin_convertvector(((const Bytes*)weights)[vector], Shorts);
    }
    static Sums add(Sums sums, Ints x, Ints w) {
#if __AVX512BW__
        return sums + (Ints)_mm512_madd_epi16((__m512i)x, (__m512i)w);
#elif __AVX2__ && !__AVX512F__
        return sums + (Ints)_mm256_madd_epi16((__m256i)x, (__m256i)w);
#elif __SSE2__ && !__AVX__
        return sums + (Ints)_mm_madd_epi16((__m128i)x, (__m128i)w);
#else
        return sums + (x << 16 >> 16) * (w << 16 >> 16) + (x >> 16) * (w >> 16);
#endif
    }
#endif
    static float convert(Input* to, const float* x, long count) {
        Floats largest = Floats{} + 1e-30f;
        Ints not_numbers{};  // NaN, which the maximum does not propagate
        for (long i = 0; i < count; i += LANES) {
            const Floats numbers = *(Floats*)(x + i);
            largest = larger(largest, larger(numbers, -numbers));
            not_numbers |= numbers != numbers;
        }
        const float limit = any(not_numbers) ? NAN : largest_of(largest);
        for (long i = 0; i < count; i++) to[i] = (int)(x[i] * (127 / limit) + 128.5f) - 128 + ZERO_POINT;
        return limit / 127;
    }
};

// Scale a vector of outputs from `column` on, add the bias, apply ReLU if `relu`, and store it at index `at`.
static void finish(const Product& p, Floats y, long column, long at, float* out, bool relu) {
    y = y * *(Floats*)(p.scales + column) + *(Floats*)(p.bias + column);
    if (relu) y = y < 0 ? Floats{} : y;
    *(Floats*)(out + at) = y;
}

// R rows of converted inputs times the weights of G tiles of VECTORS vectors of outputs, from `column` on.
template <class P, long R, long G>
static void tile(const Product& p, const Word* inputs, const float* scales, long column, float* out, bool relu) {
    constexpr long W = G * VECTORS;
    const long depth = p.inputs / P::DEPTH;
    typename P::Sums sums[R][W];
    UNROLL for (long r = 0; r < R; r++)
        UNROLL for (long v = 0; v < W; v++) sums[r][v] = *(typename P::Sums*)(p.start + column + v * LANES);
    for (long i = 0, vector = column / LANES * depth; i < depth; i++, vector += VECTORS) {
        const auto weights = [&](long v) {
            Ints w = P::load(p.weights, vector + v / VECTORS * VECTORS * depth + v % VECTORS);
#if __x86_64__
            if (REGISTERS == 16 && R > 1) asm("" : "+v"(w));  // in a register: else GCC loads it once for each row
#endif
            return w;
        };
        const auto input = [&](long r) { return Ints{} + inputs[r * depth + i]; };
        if constexpr (P::BY_ROW) {
            Ints w[W];
            UNROLL for (long v = 0; v < W; v++) w[v] = weights(v);
            UNROLL for (long r = 0; r < R; r++)
                UNROLL for (long v = 0; v < W; v++) sums[r][v] = P::add(sums[r][v], input(r), w[v]);
        } else {
            Ints x[R];
            UNROLL for (long r = 0; r < R; r++) x[r] = input(r);
            UNROLL for (long v = 0; v < W; v++) {
                const Ints w = weights(v);
                UNROLL for (long r = 0; r < R; r++) sums[r][v] = P::add(sums[r][v], x[r], w);
            }
        }
    }
    UNROLL for (long r = 0; r < R; r++)
        UNROLL for (long v = 0; v < W; v++) {
            const Floats y = __builtin_convertvector(sums[r][v], Floats) * scales[r];
            finish(p, y, column + v * LANES, r * p.outputs + column + v * LANES, out, relu);
        }
}

// Compute a tile of at most ROWS rows from `column` on; return the column after it. An addition waits for the previous
// one, so if there are no other rows (`alone`), few rows compute several tiles of outputs together.
template <class P, long R = ROWS>
static long tile_of(
    long rows, bool alone, const Product& p, const Word* inputs, const float* scales, long column, float* out, bool relu
) {
    if constexpr (R > 1)
        if (rows < R) return tile_of<P, R - 1>(rows, alone, p, inputs, scales, column, out, relu);
    constexpr long SUMS = R * VECTORS, G = SUMS >= P::SUMS ? 1 : 2 * SUMS >= P::SUMS ? 2 : 4;
    if (G > 1 && alone && column + G * WIDTH <= p.outputs)
        return tile<P, R, G>(p, inputs, scales, column, out, relu), column + G * WIDTH;
    return tile<P, R, 1>(p, inputs, scales, column, out, relu), column + WIDTH;
}

template <class P>
static void multiply(const Product& p, float* out, const float* x, long rows, bool relu) {
    const Space space(std::min(INPUT_ROWS, rows) * p.inputs / P::DEPTH);
    auto* converted = (typename P::Input*)space.numbers;  // (rows, at most INPUT_ROWS; inputs)
    float scales[INPUT_ROWS];
    for (; rows > 0; rows -= INPUT_ROWS, x += INPUT_ROWS * p.inputs, out += INPUT_ROWS * p.outputs) {
        const long count = std::min(INPUT_ROWS, rows), tiles = (count + ROWS - 1) / ROWS;
        for (long r = 0; r < count; r++) scales[r] = P::convert(&converted[r * p.inputs], x + r * p.inputs, p.inputs);
        for (long column = 0, next_start; column < p.outputs; column = next_start)
            for (long t = 0, r = 0, next; t < tiles; t++, r = next) {
                next = (t + 1) * count / tiles;
                const Word* inputs = (const Word*)&converted[r * p.inputs];
                next_start = tile_of<P>(next - r, tiles == 1, p, inputs, &scales[r], column, out + r * p.outputs, relu);
            }
    }
}

#ifdef __AMX_BF16__
// The same as multiply<BF16> with AMX, which multiplies tiles: 16 rows of 32 inputs times 32 inputs of 16 outputs. Two
// tiles of rows and two of outputs are computed together.
static void multiply_tiles(const Product& p, float* out, const float* x, long rows, bool relu) {
    struct { char palette = 1, unused[15] = {}; short bytes[16]; char rows[16]; } tiles = {};
    std::fill_n(tiles.bytes, 8, 64), std::fill_n(tiles.rows, 8, LANES);
    _tile_loadconfig(&tiles);
    const long depth = p.inputs / 2, pair = 2 * LANES;
    const Space space(std::min(AMX_INPUT_ROWS, (rows + pair - 1) / pair * pair) * depth);
    auto* converted = (Bfloat16*)space.numbers;  // (rows, at most AMX_INPUT_ROWS, and a multiple of 32; inputs)
    Floats sums[4][LANES];
    for (long first = 0; first < rows; first += AMX_INPUT_ROWS, x += AMX_INPUT_ROWS * p.inputs) {
        const long count = std::min(AMX_INPUT_ROWS, rows - first);
        BF16::convert(converted, x, count * p.inputs);
        for (long o = 0; o < p.outputs; o += pair)
            for (long row = 0; row < count; row += pair) {
                const Bfloat16* row_inputs = converted + row * p.inputs;
                const Ints* weights = (const Ints*)p.weights + o / WIDTH * VECTORS * depth + o / LANES % VECTORS;
                const bool both = row + LANES < count;
                _tile_zero(0); _tile_zero(1); _tile_zero(2); _tile_zero(3);
                for (long i = 0; i < depth; i += LANES) {
                    _tile_loadd(4, row_inputs + 2 * i, 2 * p.inputs);
                    _tile_loadd(6, weights + i * VECTORS, VECTORS * 64);
                    _tile_loadd(7, weights + i * VECTORS + 1, VECTORS * 64);
                    _tile_dpbf16ps(0, 4, 6); _tile_dpbf16ps(1, 4, 7);
                    if (!both) continue;
                    _tile_loadd(5, row_inputs + LANES * p.inputs + 2 * i, 2 * p.inputs);
                    _tile_dpbf16ps(2, 5, 6); _tile_dpbf16ps(3, 5, 7);
                }
                _tile_stored(0, sums[0], 64); _tile_stored(1, sums[1], 64);
                _tile_stored(2, sums[2], 64); _tile_stored(3, sums[3], 64);
                for (long i = 0; i < 2 * std::min(pair, count - row); i++) {
                    const long r = i / 2, column = o + i % 2 * LANES, at = (first + row + r) * p.outputs + column;
                    finish(p, sums[r / LANES * 2 + i % 2][r % LANES], column, at, out, relu);
                }
            }
    }
    _tile_release();
}
#endif

extern "C" {
extern const long outputs_of_tile = WIDTH, int8_depth = INT8::DEPTH, zero_point = INT8::ZERO_POINT;
decltype(Product::function) multiply_fp32 = multiply<FP32>;
decltype(Product::function) multiply_bf16 = multiply<BF16>;
#ifdef __AMX_BF16__
decltype(Product::function) multiply_tiles_bf16 = multiply_tiles;
#endif
decltype(Product::function) multiply_int8 = multiply<INT8>;
}
