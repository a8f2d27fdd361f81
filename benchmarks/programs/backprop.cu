// One round of training of a network with 65536 inputs, 16 hidden units and one output: backprop 65536. Six blocks; inputs and weights go
// up, a kernel adds up in blocks of 16 inputs, the sums come down; the CPU computes the errors; these, the last changes and the weights
// again go up, a kernel adjusts the weights, inputs and weights come down. The CPU does all of it as well.

#include "programs/program.hpp"

namespace {

constexpr unsigned num_hidden = 16;
constexpr unsigned width = num_hidden + 1;  // of a row of weights: column 0 is of no unit
constexpr unsigned rows = 16;               // inputs that a block adds up
constexpr float rate = 0.3F, momentum = 0.3F;

// sums[block * 16 + unit]: the block's inputs times their weights. The weights of the constant input are kept for the second kernel.
__global__ void add_up(float const* inputs, float const* weights, float* sums, float* constant) {
  __shared__ float products[rows][num_hidden];
  unsigned const unit = threadIdx.x, row = threadIdx.y;
  unsigned const input = 1 + blockIdx.x * rows + row;
  products[row][unit] = inputs[input] * weights[input * width + unit + 1];
  __syncthreads();
  for (unsigned half = rows / 2; half > 0; half /= 2) {
    if (row < half) products[row][unit] += products[row + half][unit];
    __syncthreads();
  }
  if (row == 0) sums[blockIdx.x * num_hidden + unit] = products[0][unit];
  if (blockIdx.x == 0 && row == 0) constant[unit + 1] = weights[unit + 1];
}

__global__ void adjust(float const* inputs, float* weights, float* changes, float const* errors, float const* constant) {
  unsigned const unit = threadIdx.x + 1;
  unsigned const input = 1 + blockIdx.x * rows + threadIdx.y;
  unsigned const at = input * width + unit;
  float const change = rate * errors[unit] * inputs[input] + momentum * changes[at];
  weights[at] += change;
  changes[at] = change;
  if (input == 1) {
    float const of_constant = rate * errors[unit] + momentum * changes[unit];
    weights[unit] = constant[unit] + of_constant;
    changes[unit] = of_constant;
  }
}

float squashed(double sum) { return static_cast<float>(1 / (1 + std::exp(-sum))); }

void train(unsigned num) {
  unsigned const blocks = num / rows;
  programs::array<float> inputs(num + 1), weights(std::size_t{num + 1} * width), changes(weights.size(), 0), errors(width, 0);
  programs::array<float> sums(std::size_t{blocks} * num_hidden);
  programs::random_numbers source(num);
  for (float& value : inputs) value = source.between(0, 1);
  inputs[0] = 1;
  for (float& value : weights) value = source.between(-0.01F, 0.01F);
  for (float& value : changes) value = source.between(-0.001F, 0.001F);
  std::vector<float> const weights_before(weights.begin(), weights.end()), changes_before(changes.begin(), changes.end());
  std::vector<float> output_weights(width);
  for (float& value : output_weights) value = source.between(-1, 1);
  float const target = 0.1F;

  dim3 const block(num_hidden, rows);
  auto* const device_inputs = programs::allocate_for(inputs);
  auto* const device_constant = programs::allocate<float>(width);
  auto* const device_weights = programs::allocate_for(weights);
  auto* const device_sums = programs::allocate_for(sums);
  programs::upload(device_inputs, inputs);
  programs::upload(device_weights, weights);
  programs::timed("add_up", [&] { add_up<<<blocks, block>>>(device_inputs, device_weights, device_sums, device_constant); });
  programs::download(sums, device_sums);

  std::vector<float> hidden(width, 1);
  double output_sum = double{output_weights[0]};
  for (unsigned unit = 1; unit < width; ++unit) {
    double sum = double{weights[unit]}, wanted = sum;
    for (unsigned b = 0; b < blocks; ++b) sum += double{sums[b * num_hidden + unit - 1]};
    for (unsigned input = 1; input <= num; ++input) wanted += double{inputs[input]} * double{weights[input * width + unit]};
    programs::expect(programs::near(sum, wanted, 1e-3), "a hidden unit's sum is not the CPU's");
    hidden[unit] = squashed(sum);
    output_sum += double{hidden[unit]} * double{output_weights[unit]};
  }
  float const output = squashed(output_sum);
  float const output_error = output * (1 - output) * (target - output);
  for (unsigned unit = 1; unit < width; ++unit) errors[unit] = hidden[unit] * (1 - hidden[unit]) * output_error * output_weights[unit];

  auto* const device_errors = programs::allocate_for(errors);
  auto* const device_changes = programs::allocate_for(changes);
  programs::upload(device_errors, errors);
  programs::upload(device_changes, changes);
  programs::upload(device_weights, weights);
  programs::timed("adjust",
                  [&] { adjust<<<blocks, block>>>(device_inputs, device_weights, device_changes, device_errors, device_constant); });
  programs::array<float> inputs_after(inputs.size());
  programs::download(inputs_after, device_inputs);
  programs::download(weights, device_weights);
  programs::release(device_inputs, inputs);
  programs::release(device_constant);
  programs::release(device_weights, weights);
  programs::release(device_sums, sums);
  programs::release(device_errors, errors);
  programs::release(device_changes, changes);

  programs::expect(inputs_after == inputs, "the inputs changed");
  for (std::size_t at = 0; at < weights.size(); ++at) {
    std::size_t const unit = at % width;
    double const change =
        unit == 0 ? 0 : double{rate} * double{errors[unit]} * double{inputs[at / width]} + double{momentum} * double{changes_before[at]};
    programs::expect(programs::near(weights[at], double{weights_before[at]} + change, 1e-6), "a weight is not the CPU's");
  }
  programs::print_fingerprint("hidden", hidden);
  programs::print_fingerprint("weights", weights);
}

}  // namespace

int main(int count, char** arguments) { return programs::run(count, arguments, {{"65536", 65536}}, train); }
