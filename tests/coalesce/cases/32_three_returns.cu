__global__ void kernel(void** out) {
  out[threadIdx.x] = malloc(8);  // pattern: collective R1; flow: collective R1
}
int work(int rank) { return rank / 2; }
int main(int argc, char**) {
  int const rank = argc;
  if (rank) return 1;  // note: W7
  if (argc > 7) {
    return work(rank);  // note: W7
  }
  return 0;
}
