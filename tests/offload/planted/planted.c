/* Loops that a detector has to find, and loops that only look like them.
 *
 * A function's name says what is expected of its loops: the pattern, or `no_` and the reason.
 * build.sh compiles this file; the modules are committed. */
#define N 4096
#define M 64
#define F(name) __attribute__((noinline, export_name(#name))) void name
#define V(name) __attribute__((noinline, export_name(#name))) float name
typedef const float *restrict In;
typedef float *restrict Out;
__attribute__((import_module("env"), import_name("outside"))) extern float outside(float);

/* element-wise: 18 */
F(elementwise_add)(In a, In b, Out c) { for (int i = 0; i < N; i++) c[i] = a[i] + b[i]; }
F(elementwise_may_alias)(const float *a, const float *b, float *c) { for (int i = 0; i < N; i++) c[i] = a[i] * b[i]; }
F(elementwise_in_place)(float *a) { for (int i = 0; i < N; i++) a[i] = a[i] * 3.0f + 1.0f; }
F(elementwise_axpy)(float s, In x, Out y) { for (int i = 0; i < N; i++) y[i] += s * x[i]; }
F(elementwise_scale)(float s, In x, Out y) { for (int i = 0; i < N; i++) y[i] = s * x[i]; }
F(elementwise_relu)(In x, Out y) { for (int i = 0; i < N; i++) y[i] = x[i] > 0.0f ? x[i] : 0.0f; }
F(elementwise_clamp)(In x, Out y) { for (int i = 0; i < N; i++) { float v = x[i]; v = v < -1.0f ? -1.0f : v; y[i] = v > 1.0f ? 1.0f : v; } }
F(elementwise_polynomial)(In x, Out y) { for (int i = 0; i < N; i++) { float v = x[i]; y[i] = ((v * 0.3f + 0.2f) * v - 1.5f) * v + 4.0f; } }
F(elementwise_sqrt)(In x, Out y) { for (int i = 0; i < N; i++) y[i] = __builtin_sqrtf(__builtin_fabsf(x[i])); }
F(elementwise_divide)(In a, In b, Out c) { for (int i = 0; i < N; i++) c[i] = a[i] / (b[i] * b[i] + 1.0f); }
F(elementwise_lerp)(In a, In b, In t, Out c) { for (int i = 0; i < N; i++) c[i] = a[i] + (b[i] - a[i]) * t[i]; }
F(elementwise_odd)(In a, In b, Out c) { for (int i = 0; i < 1003; i++) c[i] = a[i] - b[i]; }
F(elementwise_rows)(In a, Out c) { for (int i = 0; i < M; i++) for (int j = 0; j < M; j++) c[i * 100 + j] = a[i * 80 + j] * 2.0f; }
F(elementwise_transpose)(In a, Out c) { for (int i = 0; i < M; i++) for (int j = 0; j < M; j++) c[i * M + j] = -a[j * M + i]; }
F(elementwise_complex)(In a, In b, Out c) {
  for (int i = 0; i < N; i++) {
    c[2 * i] = a[2 * i] * b[2 * i] - a[2 * i + 1] * b[2 * i + 1];
    c[2 * i + 1] = a[2 * i] * b[2 * i + 1] + a[2 * i + 1] * b[2 * i];
  }
}
F(elementwise_stencil)(In a, Out c) { for (int i = 0; i < N; i++) c[i] = 0.25f * a[i] + 0.5f * a[i + 1] + 0.25f * a[i + 2]; }
F(elementwise_bias)(In bias, Out c) { for (int i = 0; i < M; i++) for (int j = 0; j < M; j++) c[i * M + j] += bias[j]; }
static float table_a[N], table_b[N];
float *tables(void) { table_a[1] = 2; return table_a; }
F(elementwise_static)(void) { for (int i = 0; i < N; i++) table_b[i] = table_a[i] * table_a[i] + 1.0f; }
float *results(void) { return table_b; }

/* dot: 5 */
V(dot_plain)(In a, In b) { float s = 0; for (int i = 0; i < N; i++) s += a[i] * b[i]; return s; }
V(dot_norm)(In a) { float s = 0; for (int i = 0; i < N; i++) s += a[i] * a[i]; return s; }
V(dot_strided)(In a, In b) { float s = 0; for (int i = 0; i < 512; i++) s += a[3 * i] * b[5 * i]; return s; }
V(dot_start)(float s, In a, In b) { for (int i = 0; i < N; i++) s += a[i] * b[i]; return s * 0.5f; }
V(dot_two_dimensions)(In a, In b) { float s = 0; for (int i = 0; i < M; i++) for (int j = 0; j < M; j++) s += a[i * M + j] * b[j * M + i]; return s; }

/* gemv: 6 */
F(gemv_rows)(In a, In x, Out y) { for (int i = 0; i < M; i++) { float s = 0; for (int j = 0; j < 256; j++) s += a[i * 256 + j] * x[j]; y[i] = s; } }
F(gemv_columns)(In a, In x, Out y) { for (int j = 0; j < 256; j++) for (int i = 0; i < M; i++) y[i] += a[j * M + i] * x[j]; }
F(gemv_add)(In a, In x, Out y) { for (int i = 0; i < M; i++) { float s = y[i]; for (int j = 0; j < 256; j++) s += a[i * 256 + j] * x[j]; y[i] = s; } }
F(gemv_bias_relu)(In a, In x, In b, Out y) { for (int i = 0; i < M; i++) { float s = b[i]; for (int j = 0; j < 256; j++) s += a[i * 256 + j] * x[j]; y[i] = s > 0 ? s : 0; } }
F(gemv_scaled)(float alpha, In a, In x, Out y) { for (int i = 0; i < M; i++) { float s = 0; for (int j = 0; j < 256; j++) s += a[i * 256 + j] * x[j]; y[i] = alpha * s; } }
F(gemv_in_memory)(In a, In x, float *y) { for (int i = 0; i < M; i++) for (int j = 0; j < 256; j++) y[i] += a[i * 256 + j] * x[j]; }

/* reductions of another kind: 3 */
V(reduction_sum)(In a) { float s = 0; for (int i = 0; i < N; i++) s += a[i]; return s; }
F(reduction_rows)(In a, Out y) { for (int i = 0; i < M; i++) { float s = 0; for (int j = 0; j < 256; j++) s += a[i * 256 + j]; y[i] = s * (1.0f / 256); } }
V(reduction_distance)(In a, In b) { float s = 0; for (int i = 0; i < N; i++) { float d = a[i] - b[i]; s += d * d; } return s; }

/* matmul: 8 */
F(matmul_naive)(const float *a, const float *b, float *c) {
  for (int i = 0; i < M; i++) for (int j = 0; j < M; j++) { float s = 0; for (int k = 0; k < M; k++) s += a[i * M + k] * b[k * M + j]; c[i * M + j] = s; }
}
F(matmul_add)(In a, In b, Out c) {
  for (int i = 0; i < M; i++) for (int k = 0; k < M; k++) for (int j = 0; j < M; j++) c[i * M + j] += a[i * M + k] * b[k * M + j];
}
F(matmul_tiled)(In a, In b, Out c) {
  for (int ii = 0; ii < M; ii += 16) for (int jj = 0; jj < M; jj += 16) for (int kk = 0; kk < M; kk += 16)
    for (int i = ii; i < ii + 16; i++) for (int j = jj; j < jj + 16; j++) {
      float s = c[i * M + j];
      for (int k = kk; k < kk + 16; k++) s += a[i * M + k] * b[k * M + j];
      c[i * M + j] = s;
    }
}
F(matmul_transposed)(In a, In b, Out c) {
  for (int i = 0; i < M; i++) for (int j = 0; j < M; j++) { float s = 0; for (int k = 0; k < M; k++) s += a[i * M + k] * b[j * M + k]; c[i * M + j] = s; }
}
F(matmul_leading)(In a, In b, Out c) {
  for (int i = 0; i < 48; i++) for (int j = 0; j < 32; j++) { float s = 0; for (int k = 0; k < 96; k++) s += a[i * 100 + k] * b[k * 40 + j]; c[i * 36 + j] = s; }
}
F(matmul_alpha_beta)(float alpha, float beta, In a, In b, Out c) {
  for (int i = 0; i < M; i++) for (int j = 0; j < M; j++) { float s = 0; for (int k = 0; k < M; k++) s += a[i * M + k] * b[k * M + j]; c[i * M + j] = alpha * s + beta * c[i * M + j]; }
}
F(matmul_blocked)(In a, In b, Out c) { /* four rows at a time in registers */
  for (int i = 0; i < M; i += 4) for (int j = 0; j < M; j++) {
    float s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    for (int k = 0; k < M; k++) {
      float v = b[k * M + j];
      s0 += a[i * M + k] * v; s1 += a[(i + 1) * M + k] * v; s2 += a[(i + 2) * M + k] * v; s3 += a[(i + 3) * M + k] * v;
    }
    c[i * M + j] = s0; c[(i + 1) * M + j] = s1; c[(i + 2) * M + j] = s2; c[(i + 3) * M + j] = s3;
  }
}
F(matmul_batched)(In a, In b, Out c) {
  for (int h = 0; h < 4; h++) for (int i = 0; i < 32; i++) for (int j = 0; j < 32; j++) {
    float s = 0;
    for (int k = 0; k < 32; k++) s += a[h * 1024 + i * 32 + k] * b[h * 1024 + k * 32 + j];
    c[h * 1024 + i * 32 + j] = s;
  }
}

/* What has to stay */
F(no_branch_sparse)(In a, Out c) { for (int i = 0; i < N; i++) if (a[i] > 0.5f) c[i] = a[i] * 2.0f; }
V(no_branch_search)(In a) { for (int i = 0; i < N; i++) if (a[i] * a[i] > 2.0f) return (float)i; return -1; }
F(no_call)(In a, Out c) { for (int i = 0; i < N; i++) c[i] = outside(a[i]); }
F(no_dynamic_trip_count_add)(In a, In b, Out c, int n) { for (int i = 0; i < n; i++) c[i] = a[i] + b[i]; }
V(no_dynamic_trip_count_dot)(In a, In b, int n) { float s = 0; for (int i = 0; i < n; i++) s += a[i] * b[i]; return s; }
F(no_dynamic_trip_count_until)(Out c) { while (*c != 0.0f) { *c = *c * 2.0f; c++; } }
F(no_f64_add)(const double *restrict a, double *restrict c) { for (int i = 0; i < N; i++) c[i] = a[i] * 2.0; }
V(no_f64_dot)(In a, In b) { double s = 0; for (int i = 0; i < N; i++) s += (double)a[i] * b[i]; return (float)s; }
F(no_aliasing_shift)(float *a) { for (int i = 0; i < N; i++) a[i + 8] = a[i] * 2.0f; }
F(no_aliasing_histogram)(In a, Out c) { for (int i = 0; i < N; i++) { c[i & 7] += a[i]; } }
F(no_aliasing_recurrence)(float *a) { for (int i = 1; i < N; i++) a[i] = a[i] + a[i - 1] * 0.5f; }
F(no_recurrence_scan)(In a, Out c) { float s = 0; for (int i = 0; i < N; i++) { s += a[i]; c[i] = s; } }
F(no_recurrence_filter)(In a, Out c) { float s = 0; for (int i = 0; i < N; i++) { s = s * 0.9f + a[i]; c[i] = s; } }
V(no_recurrence_horner)(In a) { float s = 0; for (int i = 0; i < N; i++) s = s * 0.99f + a[i]; return s; }
F(no_integer_add)(const int *restrict a, int *restrict c) { for (int i = 0; i < N; i++) c[i] = a[i] + 3; }
F(no_integer_bytes)(const unsigned char *restrict a, Out c) { for (int i = 0; i < N; i++) c[i] = a[i] * (1.0f / 255); }
F(no_index_gather)(In a, const int *restrict at, Out c) { for (int i = 0; i < N; i++) c[i] = a[at[i]] * 2.0f; }
F(no_copy)(In a, Out c) { for (int i = 0; i < M; i++) for (int j = 0; j < M; j++) c[i * M + j] = a[j * M + i]; }
F(no_small)(In a, Out c) { for (int i = 0; i < 8; i++) for (int j = 0; j < 4; j++) c[32 * i + j] = a[j * 17 + i] * 2.0f; }
F(no_triangle)(In a, Out c) { for (int i = 0; i < M; i++) for (int j = 0; j <= i; j++) c[i * M + j] = a[i * M + j] * 2.0f; }
