// What the kernels for CPUs with AVX-512 have in common. native.py describes their arguments.
#pragma once
#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstring>

typedef float Floats __attribute__((vector_size(64), aligned(4), may_alias));
constexpr long LANES = 16;

extern "C" __attribute__((simd("notinbranch"))) float expf(float);  // that of libmvec

static inline __mmask16 lanes(long left) { return left >= LANES ? -1 : left <= 0 ? 0 : (1 << left) - 1; }

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

struct Product {  // with a constant weight
    const void* weights;
    const float *scales, *bias;  // of each output
    const int* start;            // what the sum of an output starts with
    long inputs, outputs;
    // scratch for converted inputs, outputs (rows, outputs), inputs (rows, inputs), rows, whether ReLU follows
    void (*multiply)(const Product&, void*, float*, const float*, long, bool);
};

struct RowsAttention {                                     // see attention_rows.cpp and native.py
    void *queries, *keys, *values, *output;                // output: in the backward pass its gradient
    void *query_gradient, *key_gradient, *value_gradient;  // in the forward pass unused
    float *logsumexp, *scratch;                            // (rows, heads); of each thread
    const long *query_offsets, *key_offsets;
    long query_stride, key_stride, output_stride, query_gradient_stride, key_gradient_stride;
    long sentences, heads, width, longest, threads, causal;
};

extern "C" void attend_rows_fp32(const RowsAttention& rows, bool is_backward);
extern "C" long attention_scratch(long width, long longest);
