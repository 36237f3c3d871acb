// fourierscale.nn for the page without a server: Fourier layers, activations and the head, a few products each.

// LocalFourierConv2d: the spectrum of the taps at every frequency of a half plane, (frequency, out, in).
function makeConv({ inputs, outputs, taps, reference, weight, bias }, highest) {
  const rows = grid(highest), columns = highest + 1, pairs = outputs * inputs, c = taps >> 1;
  const real = new Float32Array(rows * columns * pairs), imag = new Float32Array(rows * columns * pairs);
  const turn = (p, n) => (-2 * Math.PI * p * (n - c)) / reference;
  const halfReal = new Float64Array(taps), halfImag = new Float64Array(taps);
  const atTaps = (f, p) => Float64Array.from({ length: taps }, (_, n) => f(turn(p, n)));
  const table = (f) => Array.from({ length: rows }, (_, j) => atTaps(f, signed(j)));
  const cosines = table(Math.cos), sines = table(Math.sin);
  for (let pair = 0; pair < pairs; pair++) {
    for (let p = 0; p < columns; p++) {
      const cos = cosines[p && 2 * p - 1], sin = sines[p && 2 * p - 1];
      for (let n = 0; n < taps; n++) {
        const start = (pair * taps + n) * taps;
        halfReal[n] = dot(weight, cos, start);
        halfImag[n] = dot(weight, sin, start);
      }
      for (let j = 0; j < rows; j++) {
        const at = (j * columns + p) * pairs + pair;
        real[at] = dot(cosines[j], halfReal) - dot(sines[j], halfImag);
        imag[at] = dot(cosines[j], halfImag) + dot(sines[j], halfReal);
      }
    }
  }
  return { inputs, outputs, columns, real, imag, bias };
}

// Frequencies in the order 0, +1, -1, +2, -2, ...
const signed = (j) => (j % 2 ? (j + 1) / 2 : -j / 2);

// fourier_conv
function convolve({ inputs, outputs, columns, real, imag, bias }, x) {
  const n = x.side, k = band(n), half = Math.SQRT1_2, wide = k + 1, y = map(outputs, n);
  const xr = new Float64Array(n * wide * inputs), xi = new Float64Array(n * wide * inputs);
  for (let c = 0; c < inputs; c++) {
    const re = (i, p) => (p ? half : 1) * x.values[(c * n + i) * n + (p && 2 * p - 1)];
    const im = (i, p) => (p ? -half * x.values[(c * n + i) * n + 2 * p] : 0);
    for (let p = 0; p < wide; p++) {
      xr[p * inputs + c] = re(0, p);
      xi[p * inputs + c] = im(0, p);
      for (let q = 1; q <= k; q++) {
        const ar = half * re(2 * q - 1, p), ai = half * im(2 * q - 1, p), br = half * re(2 * q, p), bi = half * im(2 * q, p);
        const plus = ((2 * q - 1) * wide + p) * inputs + c, minus = (2 * q * wide + p) * inputs + c;
        xr[plus] = ar + bi;
        xi[plus] = ai - br;
        xr[minus] = ar - bi;
        xi[minus] = ai + br;
      }
    }
  }
  const yr = new Float64Array(n * wide * outputs), yi = new Float64Array(n * wide * outputs);
  for (let j = 0; j < n; j++) {
    for (let p = 0; p < wide; p++) {
      const from = (j * wide + p) * inputs, to = (j * wide + p) * outputs;
      let at = (j * columns + p) * outputs * inputs;
      for (let o = 0; o < outputs; o++) {
        let sr = 0, si = 0;
        for (let c = from; c < from + inputs; c++, at++) {
          sr += real[at] * xr[c] - imag[at] * xi[c];
          si += real[at] * xi[c] + imag[at] * xr[c];
        }
        yr[to + o] = sr;
        yi[to + o] = si;
      }
    }
  }
  for (let o = 0; o < outputs; o++) {
    const put = (i, p, r, m) => {
      const at = (o * n + i) * n;
      if (p === 0) y.values[at] = r;
      else [y.values[at + 2 * p - 1], y.values[at + 2 * p]] = [Math.SQRT2 * r, -Math.SQRT2 * m];
    };
    for (let p = 0; p < wide; p++) {
      put(0, p, yr[p * outputs + o], yi[p * outputs + o]);
      for (let q = 1; q <= k; q++) {
        const plus = ((2 * q - 1) * wide + p) * outputs + o, minus = (2 * q * wide + p) * outputs + o;
        put(2 * q - 1, p, half * (yr[plus] + yr[minus]), half * (yi[plus] + yi[minus]));
        put(2 * q, p, half * (yi[minus] - yi[plus]), half * (yr[plus] - yr[minus]));
      }
    }
    if (bias) y.values[o * n * n] += bias[o];
  }
  return y;
}

// plan_levels
function plan({ levels, highest, common, oversample, pool }, k) {
  const written = [...new Set(levelsOf(levels, k).map((level) => Math.floor(level / pool)))];
  return written.map((writes) => {
    const samples = common ? Math.max(grid(writes), Math.ceil(highest / pool)) : grid(writes);
    const index = levelIndex(levels, pool * writes), n = pool * Math.ceil(oversample * samples);
    return { index, n, reads: grid(pool * writes), writes: grid(writes) };
  });
}

// ScaleActivation2d: coarse to fine; where two levels share a grid, the finer adds its rim to the coarser's samples.
function activate(layer, x) {
  const { weight, bias, eps, pool, kind } = layer, n = x.side, all = plan(layer, band(n));
  const out = map(x.channels, all[all.length - 1].writes);
  for (let c = 0; c < x.channels; c++) {
    const offset = c * n * n, mean = x.values[offset];
    let waves = new Float64Array(0), done = 0, read = 0, energy = 0, wrote = 0;
    x.values[offset] = 0; // the mean is added to the samples
    for (const { index, reads, writes, n: side } of all) {
      if (waves.length !== side * side) [waves, done] = [new Float64Array(side * side), 0];
      addRim(waves, side, x.values, offset, n, done, reads);
      done = reads;
      for (let i = 0; i < reads; i++) {
        for (let j = i < read ? read : 0; j < reads; j++) energy += x.values[offset + i * n + j] ** 2;
      }
      read = reads;
      const scale = weight ? weight[index * x.channels + c] / Math.sqrt(energy + eps) : 1;
      const shift = weight ? bias[index * x.channels + c] : mean;
      let samples = new Float64Array(side * side);
      for (let i = 0; i < samples.length; i++) samples[i] = Math.max(0, scale * waves[i] + shift);
      if (pool > 1) samples = poolSamples(samples, side, pool, kind);
      takeRim(samples, side / pool, out.values, c * out.side * out.side, out.side, wrote, writes);
      wrote = writes;
    }
    x.values[offset] = mean;
  }
  return out;
}

function linear({ inputs, outputs, weight, bias }, x) {
  return Float64Array.from({ length: outputs }, (_, o) => bias[o] + dot(weight, x, o * inputs));
}

function layerNorm({ weight, bias, eps }, x) {
  const mean = x.reduce((a, b) => a + b, 0) / x.length;
  const scale = 1 / Math.sqrt(x.reduce((a, b) => a + (b - mean) ** 2, 0) / x.length + eps);
  return x.map((value, i) => (value - mean) * scale * weight[i] + bias[i]);
}

// ScaleHead: logits of every level.
function classify(head, x) {
  const n = x.side, { window, cells, kind } = head, side = window * cells, levels = levelsOf(head.levels, band(n));
  const pooled = levels.map(() => new Float64Array(x.channels * cells * cells));
  for (let c = 0; c < x.channels; c++) {
    const samples = new Float64Array(side * side);
    levels.forEach((level, number) => {
      addRim(samples, side, x.values, c * n * n, n, number ? grid(levels[number - 1]) : 0, grid(level));
      pooled[number].set(poolSamples(samples, side, window, kind), c * cells * cells);
    });
  }
  let total = 0, sum = new Float64Array(head.last.outputs);
  return levels.map((level, number) => {
    const hidden = layerNorm(head.outerNorm, linear(head.first, layerNorm(head.innerNorm, pooled[number])));
    const output = linear(head.last, hidden.map((value) => Math.max(0, value)));
    if (head.form === "plain") return output;
    const step = Math.log1p(Math.exp(head.steps[levelIndex(head.levels, level)]));
    total += step;
    sum = sum.map((value, i) => value + (head.form === "cumulative" ? step : 1) * output[i]);
    if (head.form === "cumulative") return sum;
    return head.form === "temperature" ? output.map((v) => total * v) : sum.map((v) => (total * v) / (number + 1));
  });
}
