// The two kinds of nets, and Viewer: what the page asks for, answered in a worker.

// ScaleClassifier
function scaleNet(description, prepare, highest) {
  let k = highest;
  const layers = description.layers.map(({ conv, activation }) => {
    const layer = { conv: makeConv(conv, k), activation };
    k = Math.floor(k / activation.pool);
    return layer;
  });
  return {
    see(x) {
      let features = analyze(prepare(x));
      for (const { conv, activation } of layers) features = activate(activation, convolve(conv, features));
      return { features, logits: classify(description.head, features) };
    },
    shrink: (large, small) => crop(large, small.side),
    picture: (features, channel, side) => synthesize(oneChannel(features, channel), side).values,
    spread: (features, channel) => oneChannel(features, channel).values.reduce((a, c, i) => a + (i ? c * c : 0), 0),
  };
}

// SmallCNN, its batch norms folded into its convolutions.
function smallCnn({ convs, last, size }, prepare) {
  return {
    see(x) {
      let features = prepare(pad(x, size));
      convs.forEach((conv, number) => {
        features = plainConv(conv, features);
        if (number === 0) features = maxPool(features, 2);
      });
      return { features, logits: [linear(last, maxPool(features, features.side / 2).values)] };
    },
    shrink(large, small, ratio) {
      if (ratio === 1) return downscale(large, small.side); // without the Nyquist bin, as every downscaled map
      return pad(downscale(large, Math.max(1, halfToEven(ratio * small.side))), small.side);
    },
    picture: (features, channel) => oneChannel(features, channel).values,
    spread(features, channel) {
      const { values } = oneChannel(features, channel), mean = values.reduce((a, b) => a + b, 0) / values.length;
      return values.reduce((a, b) => a + (b - mean) ** 2, 0);
    },
  };
}

function plainConv({ inputs, outputs, taps, weight, bias }, x) {
  const n = x.side, c = taps >> 1, y = map(outputs, n);
  for (let o = 0; o < outputs; o++) {
    const out = y.values.subarray(o * n * n, (o + 1) * n * n).fill(bias[o]);
    for (let i = 0; i < inputs; i++) {
      const plane = x.values.subarray(i * n * n, (i + 1) * n * n);
      for (let t = 0; t < taps * taps; t++) {
        const w = weight[(o * inputs + i) * taps * taps + t], down = Math.floor(t / taps) - c, across = (t % taps) - c;
        const top = Math.max(0, -down), bottom = Math.min(n, n - down);
        const left = Math.max(0, -across), right = Math.min(n, n - across);
        for (let row = top; row < bottom; row++) {
          const to = row * n, from = (row + down) * n + across;
          for (let column = left; column < right; column++) out[to + column] += w * plane[from + column];
        }
      }
    }
    for (let i = 0; i < out.length; i++) if (out[i] < 0) out[i] = 0;
  }
  return y;
}

function maxPool(x, window) {
  const out = map(x.channels, x.side / window), area = x.side * x.side;
  for (let c = 0; c < x.channels; c++) {
    out.values.set(poolSamples(x.values.subarray(c * area, (c + 1) * area), x.side, window, "max"), c * out.side * out.side);
  }
  return out;
}

function oneChannel(x, channel) {
  const area = x.side * x.side;
  return { channels: 1, side: x.side, values: x.values.slice(channel * area, (channel + 1) * area) };
}

function halfToEven(value) {
  const low = Math.floor(value);
  return value - low === 0.5 ? low + (low % 2) : Math.round(value);
}

class Viewer {
  constructor({ about, nets }) {
    this.about = about;
    this.nets = nets.map(({ key, kind, description, mean, std }) => {
      const normal = (v, c) => (v - mean[c]) / std[c];
      const prepare = (x) => ({ ...x, values: x.values.map((v, i) => normal(v, Math.floor(i / (x.side * x.side)))) });
      const net = kind === "cnn" ? smallCnn(description, prepare) : scaleNet(description, prepare, band(about.size));
      return { key, ...net };
    });
    this.last = null;
    this.seen = new Map();
  }

  look({ side, bytes }, resolution, rank) {
    const started = performance.now(), x = this.open(side, bytes), small = downscale(x, resolution), nets = {};
    for (const net of this.nets) nets[net.key] = this.bothWays(net, x, small, rank);
    return {
      size: x.side,
      resolution,
      image: scaled(channelsLast(small), small.side, 0, 1),
      nets,
      levels: this.see(this.nets[0], x).probabilities,
      seconds: (performance.now() - started) / 1000,
    };
  }

  open(side, bytes) {
    if (!this.last || this.last.length !== bytes.length || this.last.some((value, i) => value !== bytes[i])) {
      this.last = bytes;
      this.seen.clear();
    }
    const { channels, size } = this.about, x = map(channels, side), area = side * side;
    for (let i = 0; i < area; i++) for (let c = 0; c < channels; c++) x.values[c * area + i] = bytes[i * channels + c] / 255;
    return side > size ? downscale(x, size) : x;
  }

  see(net, x) {
    const key = `${net.key} ${x.side}`;
    if (!this.seen.has(key)) {
      const { features, logits } = net.see(x);
      this.seen.set(key, { features, probabilities: logits.map(softmax) });
    }
    return this.seen.get(key);
  }

  bothWays(net, x, xSmall, rank) {
    const large = this.see(net, x), small = this.see(net, xSmall), r = xSmall.side;
    const shrunk = net.shrink(large.features, small.features, r / x.side), { channels } = small.features;
    const spreads = Array.from({ length: channels }, (_, c) => net.spread(large.features, c));
    const channel = spreads.map((_, c) => c).sort((a, b) => spreads[b] - spreads[a])[Math.min(rank, channels - 1)];
    const maps = [small.features, shrunk].map((features) => net.picture(features, channel, r));
    const low = Math.min(...maps.flatMap((m) => [...m])), high = Math.max(...maps.flatMap((m) => [...m]));
    let error = 0, norm = 0;
    small.features.values.forEach((value, i) => {
      error += (shrunk.values[i] - value) ** 2;
      norm += value ** 2;
    });
    const shown = Math.sqrt(maps[0].length);
    return {
      small: scaled(maps[0], shown, low, high),
      shrunk: scaled(maps[1], shown, low, high),
      error: error / Math.max(norm, Number.MIN_VALUE),
      channel,
      channels,
      probabilities: small.probabilities[small.probabilities.length - 1],
    };
  }
}

function channelsLast({ channels, side, values }) {
  return Float64Array.from({ length: values.length }, (_, i) => values[(i % channels) * side * side + Math.floor(i / channels)]);
}

function scaled(values, side, low, high) {
  const to = (value) => Math.min(255, Math.max(0, Math.round(((value - low) * 255) / Math.max(high - low, 1e-12))));
  return { side, values: Array.from(values, to) };
}

function softmax(logits) {
  const top = Math.max(...logits), parts = Array.from(logits, (value) => Math.exp(value - top));
  const total = parts.reduce((a, b) => a + b, 0);
  return parts.map((part) => part / total);
}

// Messages: first the nets, then looks.

let viewer = null;
onmessage = ({ data }) => {
  try {
    if (data.nets) viewer = new Viewer(data);
    else postMessage({ number: data.number, reply: viewer.look(data.image, data.resolution, data.rank) });
  } catch (error) {
    postMessage({ number: data.number, error: error.message });
  }
};
