// Inference on CPUs with AVX-512, compiled at first use by nmt/model/native.py, which describes the arguments.
#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <vector>

extern "C" __attribute__((simd("notinbranch"))) float expf(float);  // that of libmvec

typedef float Floats __attribute__((vector_size(64), aligned(4), may_alias));
typedef int Ints __attribute__((vector_size(64), aligned(4), may_alias));
constexpr long LANES = 16, ROWS = 6, VECTORS = 4;  // a tile of a product, 6 rows times 64 outputs: 24 registers
constexpr long BLOCK = 16 * ROWS;                  // rows whose converted inputs stay in the cache
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
    static Sums add(Sums sums, Floats x, Ints w) { return (Ints)_mm512_dpbusd_epi32((__m512i)sums, (__m512i)x, (__m512i)w); }
    static float convert(Input* to, const float* x, long count) {
        __m512 largest_of = _mm512_set1_ps(1e-30f);
        for (long i = 0; i < count; i += LANES) largest_of = _mm512_max_ps(largest_of, _mm512_abs_ps(*(Floats*)(x + i)));
        const float largest = _mm512_reduce_max_ps(largest_of);
        for (long i = 0; i < count; i++) to[i] = (int)(x[i] * (127 / largest) + 128.5f);
        return largest / 127;
    }
};
#endif

struct Product {
    const Ints* weights;
    const float *scales, *bias, *start;  // of each output; what its sum starts with
    long inputs, outputs;
};

template <class P>
static void multiply(const Product& p, float* out, const float* x, const float* residual, long rows, bool relu) {
    const long depth = p.inputs / P::DEPTH;
    std::vector<typename P::Input> converted(BLOCK * p.inputs);
    float scales[BLOCK];
    for (; rows > 0; rows -= BLOCK, x += BLOCK * p.inputs, out += BLOCK * p.outputs, residual += residual ? BLOCK * p.outputs : 0) {
        const long count = std::min(BLOCK, rows);
        for (long r = 0; r < count; r++) scales[r] = P::convert(&converted[r * p.inputs], x + r * p.inputs, p.inputs);
        for (long o = 0; o < p.outputs; o += VECTORS * LANES)
            for (long row = 0; row < count; row += ROWS) {
                typename P::Sums sums[ROWS][VECTORS];
                UNROLL for (long r = 0; r < ROWS; r++)
                    UNROLL for (long v = 0; v < VECTORS; v++)
                        sums[r][v] = *(typename P::Sums*)(p.start + o + v * LANES);
                const float* of_rows = (const float*)&converted[row * p.inputs];
                const Ints* weights = p.weights + o / LANES * depth;
                for (long i = 0; i < depth; i++)
                    UNROLL for (long r = 0; r < ROWS; r++)
                        UNROLL for (long v = 0; v < VECTORS; v++)
                            sums[r][v] = P::add(sums[r][v], _mm512_set1_ps(of_rows[r * depth + i]), weights[i * VECTORS + v]);
                UNROLL for (long r = 0; r < ROWS; r++)
                    UNROLL for (long v = 0; v < VECTORS; v++) {
                        const long column = o + v * LANES, at = (row + r) * p.outputs + column;
                        if (row + r >= count) continue;
                        Floats y = __builtin_convertvector(sums[r][v], Floats) * scales[row + r];
                        y = y * *(Floats*)(p.scales + column) + *(Floats*)(p.bias + column);
                        if (relu) y = y < 0 ? Floats{} : y;
                        if (residual) y += *(Floats*)(residual + at);
                        *(Floats*)(out + at) = y;
                    }
            }
    }
}

extern "C" {
typedef void Multiply(const Product&, float*, const float*, const float*, long, bool);
Multiply* multiply_fp32 = multiply<FP32>;
#ifdef __AVX512BF16__
Multiply* multiply_bf16 = multiply<BF16>;
#endif
#ifdef __AVX512VNNI__
Multiply* multiply_int8 = multiply<INT8>;
#endif

struct Attention {
    float *keys, *values;
    const bool* mask;
    const long* places;
    long strides[3], beam, masks, length, heads, width;
};

// Compute those of the first `outputs` logits of each row in fp32 that are close to the largest.
void refine(float* logits, const float* x, const float* weights, long rows, long outputs, long inputs, long stride) {
    for (; rows > 0; rows--, logits += stride, x += inputs) {
        __m512 largest = _mm512_set1_ps(-INFINITY);
        const auto lanes = [&](long o) { return (__mmask16)(o + LANES <= outputs ? -1 : (1 << (outputs - o)) - 1); };
        for (long o = 0; o < outputs; o += LANES)
            largest = _mm512_mask_max_ps(largest, lanes(o), largest, _mm512_loadu_ps(logits + o));
        const __m512 least = _mm512_set1_ps(_mm512_reduce_max_ps(largest) - CLOSE);
        for (long o = 0; o < outputs; o += LANES) {
            unsigned close = _mm512_mask_cmp_ps_mask(lanes(o), _mm512_loadu_ps(logits + o), least, _CMP_GE_OQ);
            for (; close; close &= close - 1) {
                const long output = o + __builtin_ctz(close);
                float sum = 0;
                for (long i = 0; i < inputs; i++) sum += x[i] * weights[output * inputs + i];
                logits[output] = sum;
            }
        }
    }
}

void attend(const Attention& a, float* out, const float* queries, const float* newest, long stride, long rows) {
    std::vector<long> visible(a.length);
    std::vector<float> weights(a.length);
    for (long row = 0; row < rows; row++, queries += stride, newest += newest ? stride : 0) {
        const long sentence = a.places[row] / a.beam, rank = a.places[row] % a.masks;
        const long own = sentence * a.strides[0] + (a.length - a.beam + a.places[row] % a.beam) * a.strides[2];
        long count = 0;
        for (long i = 0; i < a.length; i++)
            if (!a.mask || a.mask[(sentence * a.masks + rank) * a.length + i])
                visible[count++] = sentence * a.strides[0] + i * a.strides[2];
        for (long head = 0; head < a.heads; head++, out += a.width) {
            float *keys = a.keys + head * a.strides[1], *values = a.values + head * a.strides[1];
            if (newest) {
                std::copy_n(newest + head * a.width, a.width, keys + own);
                std::copy_n(newest + (a.heads + head) * a.width, a.width, values + own);
            }
            float largest = -INFINITY, total = 0;
            for (long i = 0; i < count; i++) {
                float sum = 0;
                for (long j = 0; j < a.width; j++) sum += queries[head * a.width + j] * keys[visible[i] + j];
                largest = std::max(largest, weights[i] = sum / std::sqrt((float)a.width));
            }
            for (long i = 0; i < count; i++) total += weights[i] = expf(weights[i] - largest);
            std::fill(out, out + a.width, 0);
            for (long i = 0; i < count; i++) {
                const float weight = weights[i] / total;
                for (long j = 0; j < a.width; j++) out[j] += weight * values[visible[i] + j];
            }
        }
    }
}
}
