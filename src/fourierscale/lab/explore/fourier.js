// fourierscale.functional for the page without a server: bands, transforms, downscaling, in double precision.
// Everything mirrors a function of the library; where the names differ, the library's stands in front.

const band = (n) => (n - 1) >> 1;
const grid = (k) => 2 * k + 1;
const bases = new Map();

// synthesis_matrix, transposed: row k holds the k-th function of the basis on n points.
function basis(n, count) {
  const key = `${n},${count}`;
  if (!bases.has(key)) {
    const rows = Array.from({ length: count }, () => new Float64Array(n));
    for (let j = 0; j < n; j++) {
      rows[0][j] = 1;
      for (let k = 1; k < count; k++) {
        const p = (k + 1) >> 1, t = (((p * j) % n) * 2 * Math.PI) / n;
        rows[k][j] = Math.SQRT2 * (k % 2 ? Math.cos(t) : Math.sin(t));
      }
    }
    bases.set(key, rows);
  }
  return bases.get(key);
}

function dot(a, b, start = 0) {
  let sum = 0;
  for (let i = 0; i < b.length; i++) sum += a[start + i] * b[i];
  return sum;
}

// synthesize, bit by bit: add to samples what the coefficients up to `to` have beyond those up to `from`, per axis.
function addRim(samples, n, coeffs, offset, stride, from, to) {
  const b = basis(n, to), line = new Float64Array(n);
  const addOuter = (column, row) => {
    for (let y = 0; y < n; y++) {
      const factor = column[y];
      for (let x = 0; x < n; x++) samples[y * n + x] += factor * row[x];
    }
  };
  for (let i = from; i < to; i++) {
    line.fill(0);
    for (let j = 0; j < to; j++) {
      const c = coeffs[offset + i * stride + j];
      for (let x = 0; x < n; x++) line[x] += c * b[j][x];
    }
    addOuter(b[i], line);
  }
  for (let j = from; j < to && from > 0; j++) {
    line.fill(0);
    for (let i = 0; i < from; i++) {
      const c = coeffs[offset + i * stride + j];
      for (let y = 0; y < n; y++) line[y] += c * b[i][y];
    }
    addOuter(line, b[j]);
  }
}

// analyze, the rim alone: write the coefficients up to `to` that are beyond those up to `from`.
function takeRim(samples, n, coeffs, offset, stride, from, to) {
  const b = basis(n, to), line = new Float64Array(n), share = 1 / (n * n);
  for (let i = from; i < to; i++) {
    line.fill(0);
    for (let y = 0; y < n; y++) {
      const factor = b[i][y];
      for (let x = 0; x < n; x++) line[x] += factor * samples[y * n + x];
    }
    for (let j = 0; j < to; j++) coeffs[offset + i * stride + j] = share * dot(line, b[j]);
  }
  for (let j = from; j < to && from > 0; j++) {
    for (let y = 0; y < n; y++) line[y] = dot(samples, b[j], y * n);
    for (let i = 0; i < from; i++) coeffs[offset + i * stride + j] = share * dot(line, b[i]);
  }
}

// Maps are {channels, side, values}, rows of each channel one after the other; coefficients are kept the same way.
function map(channels, side) {
  return { channels, side, values: new Float64Array(channels * side * side) };
}

function analyze(x, size = x.side) {
  const count = grid(band(size)), out = map(x.channels, count), area = x.side * x.side;
  for (let c = 0; c < x.channels; c++) {
    takeRim(x.values.subarray(c * area, (c + 1) * area), x.side, out.values, c * count * count, count, 0, count);
  }
  return out;
}

function synthesize(coeffs, side) {
  const out = map(coeffs.channels, side), n = coeffs.side;
  for (let c = 0; c < coeffs.channels; c++) {
    addRim(out.values.subarray(c * side * side, (c + 1) * side * side), side, coeffs.values, c * n * n, n, 0, n);
  }
  return out;
}

const downscale = (x, size) => synthesize(analyze(x, size), size);

function crop(x, side) {
  const out = map(x.channels, side);
  for (let c = 0; c < x.channels; c++) {
    for (let i = 0; i < side; i++) {
      const from = (c * x.side + i) * x.side;
      out.values.set(x.values.subarray(from, from + side), (c * side + i) * side);
    }
  }
  return out;
}

// enlarge_to(x, size, "zero")
function pad(x, size) {
  const out = map(x.channels, size), before = (size - x.side) >> 1;
  for (let c = 0; c < x.channels; c++) {
    for (let i = 0; i < x.side; i++) {
      const from = (c * x.side + i) * x.side;
      out.values.set(x.values.subarray(from, from + x.side), (c * size + i + before) * size + before);
    }
  }
  return out;
}

// Levels.of_input and Levels.index
function levelsOf(bands, k) {
  const below = bands.filter((b) => b <= k);
  return below[below.length - 1] === k ? below : [...below, k];
}

function levelIndex(bands, k) {
  const found = bands.findIndex((b) => b >= k);
  return found < 0 ? bands.length - 1 : found;
}

// pool_samples
function poolSamples(samples, n, window, kind) {
  const side = n / window, out = new Float64Array(side * side);
  for (let i = 0; i < side; i++) {
    for (let j = 0; j < side; j++) {
      let best = -Infinity, sum = 0;
      for (let y = i * window; y < (i + 1) * window; y++) {
        for (let x = j * window; x < (j + 1) * window; x++) {
          const value = samples[y * n + x];
          sum += value;
          if (value > best) best = value;
        }
      }
      out[i * side + j] = kind === "max" ? best : sum / (window * window);
    }
  }
  return out;
}
