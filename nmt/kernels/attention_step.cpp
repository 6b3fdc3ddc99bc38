// Attention of one query of each hypothesis on CPUs with AVX-512. native.py compiles this file and describes the
// arguments.
#include <algorithm>
#include <cmath>
#include <cstring>

extern "C" __attribute__((simd("notinbranch"))) float expf(float);  // that of libmvec

constexpr long AHEAD = 3;  // keys are prefetched so many tokens before they are read

template <class To, class From>
static To bit_cast(From from) {
    To to;
    return std::memcpy(&to, &from, sizeof to), to;
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
    long* visible = a.scratch;                        // (length)
    float* weights = (float*)(a.scratch + a.length);  // (heads, length)
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
void attend_fp32(const Attention& a, float* out, const float* queries, const float* newest, long stride, long rows) {
    attend<float>(a, out, queries, newest, stride, rows);
}

void attend_bf16(const Attention& a, float* out, const float* queries, const float* newest, long stride, long rows) {
    attend<Bfloat16>(a, out, queries, newest, stride, rows);
}
}
