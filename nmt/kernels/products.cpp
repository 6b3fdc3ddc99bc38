// Products with constant weights. native.py describes the arguments.
#include "kernels.h"

constexpr long ROWS = 6, VECTORS = REGISTERS / 8;  // a tile of a product: all but a few of the registers
constexpr long BLOCK = 16 * ROWS;                  // rows whose converted inputs stay in the cache
constexpr long TILE_BLOCK = 128;                   // the same, with AMX
typedef int Word __attribute__((may_alias));

// In 32 bits, a precision has DEPTH inputs of a row or weights of an output; `add` adds their products for all lanes.
struct FP32 {
    typedef float Input;
    typedef Floats Sums;
    static constexpr long DEPTH = 1;
    static Sums add(Sums sums, Ints x, Ints w) { return sums + (Floats)x * (Floats)w; }
    static float convert(float* to, const float* x, long count) { return std::copy(x, x + count, to), 1; }
};
struct BF16 : FP32 {
    typedef Bfloat16 Input;
    static constexpr long DEPTH = 2;
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
    typedef unsigned char Input;
    typedef Ints Sums;
    static constexpr long DEPTH = 4;
#if __AVX512VNNI__ || (__AVXVNNI__ && !__AVX512F__)
    static constexpr int ZERO_POINT = 128;  // of inputs, which the instruction takes without a sign
    static Sums add(Sums sums, Ints x, Ints w) {
#if __AVX512F__
        return (Ints)_mm512_dpbusd_epi32((__m512i)sums, (__m512i)x, (__m512i)w);
#else
        return (Ints)_mm256_dpbusd_avx_epi32((__m256i)sums, (__m256i)x, (__m256i)w);
#endif
    }
#else
    // |x| times the weight with the sign of x: the sum of two such products fits into 16 bits.
    static constexpr int ZERO_POINT = 0;
    static Sums add(Sums sums, Ints x, Ints w) {
#if __AVX512F__
        const __m512i minus = _mm512_sub_epi8(__m512i{}, (__m512i)w);
        const __m512i weights = _mm512_mask_mov_epi8((__m512i)w, _mm512_movepi8_mask((__m512i)x), minus);
        const __m512i pairs = _mm512_maddubs_epi16(_mm512_abs_epi8((__m512i)x), weights);
        return sums + (Ints)_mm512_madd_epi16(pairs, _mm512_set1_epi16(1));
#else
        const __m256i weights = _mm256_sign_epi8((__m256i)w, (__m256i)x);
        const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8((__m256i)x), weights);
        return sums + (Ints)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
#endif
    }
#endif
    static float convert(Input* to, const float* x, long count) {
        Floats largest = Floats{} + 1e-30f;
        Ints not_numbers{};  // which the maximum does not keep
        for (long i = 0; i < count; i += LANES) {
            const Floats numbers = *(Floats*)(x + i);
            largest = larger(largest, numbers < 0 ? -numbers : numbers);
            not_numbers |= numbers != numbers;
        }
        const float limit = any(not_numbers) ? NAN : largest_of(largest);
        for (long i = 0; i < count; i++) to[i] = (int)(x[i] * (127 / limit) + 128.5f) - 128 + ZERO_POINT;
        return limit / 127;
    }
};

// What follows the sums of a vector of outputs: they are stored `at` that place, and begin at this column.
static void finish(const Product& p, Floats y, long column, long at, float* out, bool relu) {
    y = y * *(Floats*)(p.scales + column) + *(Floats*)(p.bias + column);
    if (relu) y = y < 0 ? Floats{} : y;
    *(Floats*)(out + at) = y;
}

// R rows of converted inputs times the weights of VECTORS vectors of outputs, from this column on.
template <class P, long R>
static void tile(const Product& p, const Word* inputs, const float* scales, long column, float* out, bool relu) {
    const long depth = p.inputs / P::DEPTH;
    typename P::Sums sums[R][VECTORS];
    UNROLL for (long r = 0; r < R; r++)
        UNROLL for (long v = 0; v < VECTORS; v++) sums[r][v] = *(typename P::Sums*)(p.start + column + v * LANES);
    const Ints* weights = (const Ints*)p.weights + column / LANES * depth;
    for (long i = 0; i < depth; i++, weights += VECTORS)
        UNROLL for (long r = 0; r < R; r++)
            UNROLL for (long v = 0; v < VECTORS; v++)
                sums[r][v] = P::add(sums[r][v], Ints{} + inputs[r * depth + i], weights[v]);
    UNROLL for (long r = 0; r < R; r++)
        UNROLL for (long v = 0; v < VECTORS; v++) {
            const Floats y = __builtin_convertvector(sums[r][v], Floats) * scales[r];
            finish(p, y, column + v * LANES, r * p.outputs + column + v * LANES, out, relu);
        }
}

template <class P, long R = ROWS, class... Arguments>
static void tile_of(long rows, const Arguments&... arguments) {
    if (rows == R) return tile<P, R>(arguments...);
    if constexpr (R > 1) tile_of<P, R - 1>(rows, arguments...);
}

template <class P>
static void multiply(const Product& p, void* scratch, float* out, const float* x, long rows, bool relu) {
    auto* converted = (typename P::Input*)scratch;  // (rows, at most BLOCK; inputs)
    float scales[BLOCK];
    for (; rows > 0; rows -= BLOCK, x += BLOCK * p.inputs, out += BLOCK * p.outputs) {
        const long count = std::min(BLOCK, rows);
        for (long r = 0; r < count; r++) scales[r] = P::convert(&converted[r * p.inputs], x + r * p.inputs, p.inputs);
        for (long column = 0; column < p.outputs; column += VECTORS * LANES)
            for (long r = 0; r < count; r += ROWS) {
                const Word* inputs = (const Word*)&converted[r * p.inputs];
                tile_of<P>(std::min(ROWS, count - r), p, inputs, &scales[r], column, out + r * p.outputs, relu);
            }
    }
}

#ifdef __AMX_BF16__
// The same as multiply<BF16> with AMX, which multiplies tiles: 16 rows of 32 inputs times 32 inputs of 16 outputs. Two
// tiles of rows and two of outputs are computed together.
static void multiply_tiles(const Product& p, void* scratch, float* out, const float* x, long rows, bool relu) {
    struct { char palette = 1, unused[15] = {}; short bytes[16]; char rows[16]; } tiles = {};
    std::fill_n(tiles.bytes, 8, 64), std::fill_n(tiles.rows, 8, LANES);
    _tile_loadconfig(&tiles);
    const long depth = p.inputs / 2, pair = 2 * LANES;
    auto* converted = (Bfloat16*)scratch;  // (rows, at most TILE_BLOCK, and a multiple of 32; inputs)
    Floats sums[4][LANES];
    for (long first = 0; first < rows; first += TILE_BLOCK, x += TILE_BLOCK * p.inputs) {
        const long count = std::min(TILE_BLOCK, rows - first);
        BF16::convert(converted, x, count * p.inputs);
        for (long o = 0; o < p.outputs; o += pair)
            for (long row = 0; row < count; row += pair) {
                const Bfloat16* of_rows = converted + row * p.inputs;
                const Ints* weights = (const Ints*)p.weights + o / (VECTORS * LANES) * VECTORS * depth + o / LANES % VECTORS;
                const bool both = row + LANES < count;
                _tile_zero(0); _tile_zero(1); _tile_zero(2); _tile_zero(3);
                for (long i = 0; i < depth; i += LANES) {
                    _tile_loadd(4, of_rows + 2 * i, 2 * p.inputs);
                    _tile_loadd(6, weights + i * VECTORS, VECTORS * 64);
                    _tile_loadd(7, weights + i * VECTORS + 1, VECTORS * 64);
                    _tile_dpbf16ps(0, 4, 6); _tile_dpbf16ps(1, 4, 7);
                    if (!both) continue;
                    _tile_loadd(5, of_rows + LANES * p.inputs + 2 * i, 2 * p.inputs);
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
extern const long outputs_of_tile = VECTORS * LANES, zero_point = INT8::ZERO_POINT;
decltype(Product::multiply) multiply_fp32 = multiply<FP32>;
decltype(Product::multiply) multiply_bf16 = multiply<BF16>;
#ifdef __AMX_BF16__
decltype(Product::multiply) multiply_tiles_bf16 = multiply_tiles;
#endif
decltype(Product::multiply) multiply_int8 = multiply<INT8>;
}
