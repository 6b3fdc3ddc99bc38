// Products with constant weights on CPUs with AVX-512. native.py describes the arguments.
#include "kernels.h"

typedef int Ints __attribute__((vector_size(64), aligned(4), may_alias));
constexpr long ROWS = 6, VECTORS = 4;  // a tile of a product, 6 rows times 64 outputs: 24 registers
constexpr long BLOCK = 16 * ROWS;                  // rows whose converted inputs stay in the cache
constexpr long TILE_BLOCK = 128;                   // the same, with AMX
constexpr float CLOSE = 2;                         // to the largest logit, of those that are refined
#define UNROLL _Pragma("GCC unroll 6")

// In 32 bits, a precision has DEPTH inputs of a row or weights of an output; `add` adds their products for 16 outputs.
struct FP32 {
    typedef float Input;
    typedef Floats Sums;
    static constexpr long DEPTH = 1;
    static Sums add(Sums sums, Floats x, Ints w) { return sums + x * (Floats)w; }
    static float convert(float* to, const float* x, long count) { return std::copy(x, x + count, to), 1; }
};
#ifdef __AVX512BF16__
struct BF16 : FP32 {
    typedef short Input;
    static constexpr long DEPTH = 2;
    static Sums add(Sums sums, Floats x, Ints w) { return _mm512_dpbf16_ps(sums, (__m512bh)x, (__m512bh)w); }
    static float convert(short* to, const float* x, long count) {
        for (long i = 0; i < count; i += LANES)
            _mm256_storeu_si256((__m256i*)(to + i), (__m256i)_mm512_cvtneps_pbh(*(Floats*)(x + i)));
        return 1;
    }
};
#endif
#ifdef __AVX512VNNI__
struct INT8 {
    typedef unsigned char Input;
    typedef Ints Sums;
    static constexpr long DEPTH = 4;
    static Sums add(Sums sums, Floats x, Ints w) {
        return (Ints)_mm512_dpbusd_epi32((__m512i)sums, (__m512i)x, (__m512i)w);
    }
    static float convert(Input* to, const float* x, long count) {
        __m512 largest_of = _mm512_set1_ps(1e-30f);
        int not_numbers = 0;  // which the maximum does not keep
        for (long i = 0; i < count; i += LANES) {
            const __m512 numbers = *(Floats*)(x + i);
            largest_of = _mm512_max_ps(largest_of, _mm512_abs_ps(numbers));
            not_numbers |= _mm512_cmp_ps_mask(numbers, numbers, _CMP_UNORD_Q);
        }
        const float largest = not_numbers ? NAN : _mm512_reduce_max_ps(largest_of);
        for (long i = 0; i < count; i++) to[i] = (int)(x[i] * (127 / largest) + 128.5f);
        return largest / 127;
    }
};
#endif

// What follows the sums of 16 outputs of a row: they are stored `at` that place, and begin at this column.
static void finish(const Product& p, Floats y, long column, long at, float* out, bool relu) {
    y = y * *(Floats*)(p.scales + column) + *(Floats*)(p.bias + column);
    if (relu) y = y < 0 ? Floats{} : y;
    *(Floats*)(out + at) = y;
}

template <class P>
static void multiply(const Product& p, void* scratch, float* out, const float* x, long rows, bool relu) {
    const long depth = p.inputs / P::DEPTH;
    auto* converted = (typename P::Input*)scratch;  // (rows, at most BLOCK, and a multiple of ROWS; inputs)
    float scales[BLOCK];
    for (long first = 0; first < rows; first += BLOCK, x += BLOCK * p.inputs) {
        const long count = std::min(BLOCK, rows - first);
        for (long r = 0; r < count; r++) scales[r] = P::convert(&converted[r * p.inputs], x + r * p.inputs, p.inputs);
        std::memset(&converted[count * p.inputs], 0, (ROWS - 1 - (count - 1) % ROWS) * p.inputs * sizeof *converted);
        for (long o = 0; o < p.outputs; o += VECTORS * LANES)
            for (long row = 0; row < count; row += ROWS) {
                typename P::Sums sums[ROWS][VECTORS];
                UNROLL for (long r = 0; r < ROWS; r++)
                    UNROLL for (long v = 0; v < VECTORS; v++)
                        sums[r][v] = *(typename P::Sums*)(p.start + o + v * LANES);
                const float* of_rows = (const float*)&converted[row * p.inputs];
                const Ints* weights = (const Ints*)p.weights + o / LANES * depth;
                for (long i = 0; i < depth; i++)
                    UNROLL for (long r = 0; r < ROWS; r++)
                        UNROLL for (long v = 0; v < VECTORS; v++)
                            sums[r][v] = P::add(
                                sums[r][v], _mm512_set1_ps(of_rows[r * depth + i]), weights[i * VECTORS + v]
                            );
                UNROLL for (long r = 0; r < ROWS; r++)
                    UNROLL for (long v = 0; v < VECTORS; v++) {
                        const long column = o + v * LANES, at = (first + row + r) * p.outputs + column;
                        if (row + r >= count) continue;
                        const Floats y = __builtin_convertvector(sums[r][v], Floats) * scales[row + r];
                        finish(p, y, column, at, out, relu);
                    }
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
    short* converted = (short*)scratch;  // (rows, at most TILE_BLOCK, and a multiple of 32; inputs)
    Floats sums[4][LANES];
    for (long first = 0; first < rows; first += TILE_BLOCK, x += TILE_BLOCK * p.inputs) {
        const long count = std::min(TILE_BLOCK, rows - first);
        BF16::convert(converted, x, count * p.inputs);
        for (long o = 0; o < p.outputs; o += pair)
            for (long row = 0; row < count; row += pair) {
                const short* of_rows = converted + row * p.inputs;
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
decltype(Product::multiply) multiply_fp32 = multiply<FP32>;
#ifdef __AVX512BF16__
decltype(Product::multiply) multiply_bf16 = multiply<BF16>;
#endif
#ifdef __AMX_BF16__
decltype(Product::multiply) multiply_tiles_bf16 = multiply_tiles;
#endif
#ifdef __AVX512VNNI__
decltype(Product::multiply) multiply_int8 = multiply<INT8>;
#endif

void refine(
    float* logits, const float* x, const float* weights, long rows, long outputs, long inputs, long stride
) {
    for (; rows > 0; rows--, logits += stride, x += inputs) {
        __m512 largest = _mm512_set1_ps(-INFINITY);
        for (long o = 0; o < outputs; o += LANES)
            largest = _mm512_mask_max_ps(largest, lanes(outputs - o), largest, _mm512_loadu_ps(logits + o));
        const __m512 least = _mm512_set1_ps(_mm512_reduce_max_ps(largest) - CLOSE);
        for (long o = 0; o < outputs; o += LANES) {
            unsigned close = _mm512_mask_cmp_ps_mask(lanes(outputs - o), _mm512_loadu_ps(logits + o), least, _CMP_GE_OQ);
            for (; close; close &= close - 1) {
                const long output = o + __builtin_ctz(close);
                float sum = 0;
                for (long i = 0; i < inputs; i++) sum += x[i] * weights[output * inputs + i];
                logits[output] = sum;
            }
        }
    }
}
}
