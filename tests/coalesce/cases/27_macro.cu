#define NEW(T) (T*)malloc(sizeof(T))
__global__ void kernel(double** out, int** others) {
  out[threadIdx.x] = NEW(double);  // pattern: dynamic W5; flow: dynamic W5
  others[threadIdx.x] = NEW(int);  // pattern: dynamic W5; flow: dynamic W5
}
