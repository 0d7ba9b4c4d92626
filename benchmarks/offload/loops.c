/* Loops of many sizes, for the size from which a GPU pays. See build.sh of tests/offload/planted. */
#define GEMM(N) \
  __attribute__((noinline, export_name("gemm" #N))) void gemm##N(const float *restrict a, const float *restrict b, float *restrict c) { \
    for (int i = 0; i < N; i++) for (int k = 0; k < N; k++) for (int j = 0; j < N; j++) c[i * N + j] += a[i * N + k] * b[k * N + j]; \
  }
#define AXPY(N) \
  __attribute__((noinline, export_name("axpy" #N))) void axpy##N(float s, const float *restrict x, float *restrict y) { for (int i = 0; i < N; i++) y[i] += s * x[i]; }
#define GEMV(N) \
  __attribute__((noinline, export_name("gemv" #N))) void gemv##N(const float *restrict a, const float *restrict x, float *restrict y) { \
    for (int i = 0; i < N; i++) { float s = 0; for (int j = 0; j < N; j++) s += a[i * N + j] * x[j]; y[i] = s; } \
  }
GEMM(32) GEMM(64) GEMM(128) GEMM(192) GEMM(256) GEMM(384) GEMM(512) GEMM(768) GEMM(1024) GEMM(2048)
AXPY(65536) AXPY(1048576) AXPY(4194304)
GEMV(512) GEMV(2048)
