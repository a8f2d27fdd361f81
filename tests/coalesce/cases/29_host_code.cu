void* host_buffer;
__global__ void kernel(void** out) {
  out[threadIdx.x] = malloc(8);  // pattern: collective R1; flow: collective R1
}
extern "C" void* malloc(size_t) noexcept(true);
int main() {
  host_buffer = malloc(64);
  return 0;
}
