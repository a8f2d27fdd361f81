// The membrane potential of a fibre of 22 heart muscle cells over 100 ms, after Noble's equations of 1962: myocyte 100, the milliseconds.
// Four blocks; the CPU makes 13 steps of Kutta's third order in each millisecond and asks the GPU for every rate of change: states and
// parameters go up, a kernel, rates and a summary come down, 3900 times. The CPU computes the rates as well.

#include "programs/program.hpp"

namespace {

constexpr unsigned num_cells = 22, num_variables = 4, num_states = num_cells * num_variables;
constexpr unsigned num_parameters = 16, num_summary = 3;
constexpr unsigned steps_in_ms = 13;

// 0 capacity, 1 sodium's conductance, 2 its leak, 3 and 4 potassium's, 5 and 6 the leak's conductance and potential, 7 and 8 the potentials
// of sodium and potassium, 9 the coupling of neighbours, 10 the stimulus, 11 and 12 the cells that get it, 13 and 14 when (ms), 15 the
// time.
using parameters = float const*;

struct cell {
  float potential, m, h, n;
};

__host__ __device__ inline cell rates_of(cell const& own, float before, float after, parameters p, unsigned number) {
  float const v = own.potential;
  auto const ratio = [](float x, float scale) { return fabsf(x) < 0.05F ? scale + x / 2 : x / (1 - expf(-x / scale)); };
  float const m_up = 0.1F * ratio(v + 48, 15), m_down = 0.12F * ratio(-(v + 8), 5);
  float const h_up = 0.17F * expf(-(v + 90) / 20), h_down = 1 / (1 + expf(-(v + 42) / 10));
  float const n_up = 0.0001F * ratio(v + 50, 10), n_down = 0.002F * expf(-(v + 90) / 80);
  float const n2 = own.n * own.n;
  float const sodium = (p[1] * own.m * own.m * own.m * own.h + p[2]) * (v - p[7]);
  float const potassium = (p[3] * expf(-(v + 90) / 50) + 0.0125F * p[3] * expf((v + 90) / 60) + p[4] * n2 * n2) * (v - p[8]);
  float const leak = p[5] * (v - p[6]);
  bool const stimulated = static_cast<float>(number) >= p[11] && static_cast<float>(number) <= p[12] && p[15] >= p[13] && p[15] < p[14];
  float const given = p[9] * (before + after - 2 * v) + (stimulated ? p[10] : 0);
  return {(given - sodium - potassium - leak) / p[0], m_up * (1 - own.m) - m_down * own.m, h_up * (1 - own.h) - h_down * own.h,
          n_up * (1 - own.n) - n_down * own.n};
}

__global__ void rates(float const* states, parameters p, float* out, float* summary) {
  __shared__ float potentials[num_cells];
  unsigned const number = threadIdx.x;
  auto const* const cells = reinterpret_cast<cell const*>(states);
  if (number < num_cells) {
    cell const own = cells[number];
    potentials[number] = own.potential;
    float const before = cells[number > 0 ? number - 1 : 0].potential;
    float const after = cells[number + 1 < num_cells ? number + 1 : number].potential;
    reinterpret_cast<cell*>(out)[number] = rates_of(own, before, after, p, number);
  }
  __syncthreads();
  if (number != 0) return;
  float least = potentials[0], most = potentials[0], sum = 0;
  for (unsigned i = 0; i < num_cells; ++i) {
    least = fminf(least, potentials[i]);
    most = fmaxf(most, potentials[i]);
    sum += potentials[i];
  }
  summary[0] = least;
  summary[1] = most;
  summary[2] = sum / num_cells;
}

// One evaluation on the GPU, held against the CPU's.
class fibre {
 public:
  std::vector<float> rates_at(std::vector<float> const& states, float time_ms) {
    parameters_[15] = time_ms;
    programs::upload(device_states_, states);
    programs::upload(device_parameters_, parameters_);
    programs::timed("rates", [&] { rates<<<1, 32>>>(device_states_, device_parameters_, device_rates_, device_summary_); });
    std::vector<float> found(num_states);
    programs::download(found, device_rates_);
    programs::download(summary, device_summary_);
    auto const* const cells = reinterpret_cast<cell const*>(states.data());
    for (unsigned i = 0; i < num_cells; ++i) {
      float const before = cells[i > 0 ? i - 1 : 0].potential, after = cells[i + 1 < num_cells ? i + 1 : i].potential;
      cell const wanted = rates_of(cells[i], before, after, parameters_.data(), i);
      cell const& own = reinterpret_cast<cell const*>(found.data())[i];
      programs::expect(programs::near(own.potential, wanted.potential, 1e-3) && programs::near(own.m, wanted.m, 1e-3) &&
                           programs::near(own.h, wanted.h, 1e-3) && programs::near(own.n, wanted.n, 1e-3),
                       "a rate is not the CPU's");
    }
    return found;
  }

  void release() const {
    programs::release(device_states_);
    programs::release(device_parameters_);
    programs::release(device_rates_);
    programs::release(device_summary_);
  }

  std::vector<float> summary = std::vector<float>(num_summary);  // the least, the largest and the mean potential

 private:
  std::vector<float> parameters_{12, 400, 0.14F, 1.2F, 1.2F, 0.075F, -60, 40, -100, 6, 300, 0, 2, 1, 4, 0};
  float* device_states_ = programs::allocate<float>(num_states);
  float* device_parameters_ = programs::allocate<float>(num_parameters);
  float* device_rates_ = programs::allocate<float>(num_states);
  float* device_summary_ = programs::allocate<float>(num_summary);
};

std::vector<float> plus(std::vector<float> states, float by, std::vector<float> const& first, float more,
                        std::vector<float> const& second) {
  for (unsigned i = 0; i < num_states; ++i) states[i] += by * first[i] + more * second[i];
  return states;
}

void beat(unsigned num_ms) {
  fibre muscle;
  std::vector<float> states;
  for (unsigned i = 0; i < num_cells; ++i) states.insert(states.end(), {-80, 0.05F, 0.8F, 0.02F});
  float const step = 1.0F / steps_in_ms;
  float highest = -100;
  for (unsigned number = 0; number < num_ms * steps_in_ms; ++number) {
    float const time = static_cast<float>(number) * step;
    std::vector<float> const first = muscle.rates_at(states, time);
    std::vector<float> const second = muscle.rates_at(plus(states, step / 2, first, 0, first), time + step / 2);
    std::vector<float> const third = muscle.rates_at(plus(states, -step, first, 2 * step, second), time + step);
    states = plus(plus(states, step / 6, first, 4 * step / 6, second), step / 6, third, 0, third);
    highest = std::max(highest, muscle.summary[1]);
  }
  muscle.release();
  programs::expect(highest > 0 && std::isfinite(states[0]), "no action potential travelled along the fibre");
  programs::print_fingerprint("states", states);
}

}  // namespace

int main(int count, char** arguments) { return programs::run(count, arguments, {{"100", 100}}, beat); }
