__global__ void kernel(int n, float** out) {
  float* p = (float*)malloc(n * sizeof(float));  // pattern: collective R1; flow: collective R1
  out[threadIdx.x] = p;
}
