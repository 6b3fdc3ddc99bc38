// Inference on CPUs with AVX-512, compiled at first use by native.py, which describes the arguments.
#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstring>

extern "C" __attribute__((simd("notinbranch"))) float expf(float);  // that of libmvec

typedef float Floats __attribute__((vector_size(64), aligned(4), may_alias));
typedef int Ints __attribute__((vector_size(64), aligned(4), may_alias));
constexpr long LANES = 16, ROWS = 6, VECTORS = 4;  // a tile of a product, 6 rows times 64 outputs: 24 registers
constexpr long BLOCK = 16 * ROWS;                  // rows whose converted inputs stay in the cache
constexpr long AHEAD = 3;                          // keys are prefetched so many tokens before they are read
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

template <class To, class From>
static To bit_cast(From from) {
    To to;
    return std::memcpy(&to, &from, sizeof to), to;
}

struct Product {
    const Ints* weights;
    const float *scales, *bias, *start;  // of each output; what its sum starts with
    long inputs, outputs;
};

template <class P>
static void multiply(
    const Product& p, void* scratch, float* out, const float* x, const float* residual, long rows, bool relu
) {
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
                const Ints* weights = p.weights + o / LANES * depth;
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
                        Floats y = __builtin_convertvector(sums[r][v], Floats) * scales[row + r];
                        y = y * *(Floats*)(p.scales + column) + *(Floats*)(p.bias + column);
                        if (relu) y = y < 0 ? Floats{} : y;
                        if (residual) y += *(Floats*)(residual + at);
                        *(Floats*)(out + at) = y;
                    }
            }
    }
}

struct Bfloat16 {
    unsigned short bits;  // the upper half of a float
    operator float() const { return bit_cast<float>((unsigned)bits << 16); }
    Bfloat16& operator=(float x) {  // to the nearest, ties to even
        const unsigned all = bit_cast<unsigned>(x);
        bits = (x != x ? 0x7fc00000 : all + 0x7fff + (all >> 16 & 1)) >> 16;
        return *this;
    }
};

struct Attention {
    void *keys, *values;
    const bool* mask;
    const long* places;
    long* scratch;
    long strides[3], beam, masks, length, heads, width;
};

static void prefetch(const void* numbers, long bytes) {
    for (long i = 0; i < bytes; i += 64) __builtin_prefetch((const char*)numbers + i, 0, 2);
}

// Most of the time goes into reading keys and values. So all heads of a token, which lie side by side, are read
// together, and prefetched: tokens are far apart, and the hardware prefetches only what follows.
template <class Number>
static void attend(const Attention& a, float* out, const float* queries, const float* newest, long stride, long rows) {
    long* visible = a.scratch;                             // (length)
    float* weights = (float*)(a.scratch + a.length);       // (heads, length)
    Number *keys = (Number*)a.keys, *values = (Number*)a.values;
    const long dim = a.heads * a.width;
    for (long row = 0; row < rows; row++, queries += stride, out += dim, newest += newest ? stride : 0) {
        const long sentence = a.places[row] / a.beam, rank = a.places[row] % a.masks;
        const long own = sentence * a.strides[0] + (a.length - a.beam + a.places[row] % a.beam) * a.strides[2];
        long count = 0;
        for (long i = 0; i < a.length; i++)
            if (!a.mask || a.mask[(sentence * a.masks + rank) * a.length + i])
                visible[count++] = sentence * a.strides[0] + i * a.strides[2];
        for (long head = 0; newest && head < a.heads; head++)
            for (long j = 0, at = head * a.width; j < a.width; j++) {
                keys[own + head * a.strides[1] + j] = newest[at + j];
                values[own + head * a.strides[1] + j] = newest[dim + at + j];
            }
        for (long i = 0; i < count; i++) {
            prefetch(keys + visible[std::min(i + AHEAD, count - 1)], dim * sizeof(Number));
            prefetch(values + visible[i], dim * sizeof(Number));
            for (long head = 0; head < a.heads; head++) {
                const Number* key = keys + visible[i] + head * a.strides[1];
                float sum = 0;
                for (long j = 0; j < a.width; j++) sum += queries[head * a.width + j] * (float)key[j];
                weights[head * a.length + i] = sum / std::sqrt((float)a.width);
            }
        }
        for (long head = 0; head < a.heads; head++) {
            float *own_weights = &weights[head * a.length], largest = -INFINITY, total = 0;
            for (long i = 0; i < count; i++) largest = std::max(largest, own_weights[i]);
            for (long i = 0; i < count; i++) total += own_weights[i] = expf(own_weights[i] - largest);
            for (long i = 0; i < count; i++) own_weights[i] /= total;
        }
        std::fill(out, out + dim, 0);
        for (long i = 0; i < count; i++)
            for (long head = 0; head < a.heads; head++) {
                const Number* value = values + visible[i] + head * a.strides[1];
                const float weight = weights[head * a.length + i];
                for (long j = 0; j < a.width; j++) out[head * a.width + j] += weight * (float)value[j];
            }
    }
}

extern "C" {
typedef void Multiply(const Product&, void*, float*, const float*, const float*, long, bool);
Multiply* multiply_fp32 = multiply<FP32>;
#ifdef __AVX512BF16__
Multiply* multiply_bf16 = multiply<BF16>;
#endif
#ifdef __AVX512VNNI__
Multiply* multiply_int8 = multiply<INT8>;
#endif

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

void attend_fp32(const Attention& a, float* out, const float* queries, const float* newest, long stride, long rows) {
    attend<float>(a, out, queries, newest, stride, rows);
}

void attend_bf16(const Attention& a, float* out, const float* queries, const float* newest, long stride, long rows) {
    attend<Bfloat16>(a, out, queries, newest, stride, rows);
}
}
