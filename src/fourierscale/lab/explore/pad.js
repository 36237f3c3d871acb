// The pad: strokes or a picture in, a square of bytes out.

const DIGITS = [
  "M50 15C25 15 25 85 50 85C75 85 75 15 50 15Z",
  "M40 30L54 15L54 85",
  "M30 32C32 8 72 10 68 36C65 55 40 68 30 84L72 84",
  "M31 20C50 8 72 18 66 36C63 46 52 48 44 48C62 48 74 58 68 74C61 90 38 88 29 78",
  "M60 85L60 15L26 62L76 62",
  "M68 16L38 16L34 46C48 38 70 42 70 63C70 86 42 90 28 78",
  "M62 15C40 30 30 50 32 66C34 88 66 90 68 68C69 50 42 46 33 64",
  "M28 17L72 17L46 85",
  "M50 48C28 42 30 14 50 14C70 14 72 42 50 48C24 56 26 86 50 86C74 86 76 56 50 48Z",
  "M67 36C64 14 34 14 33 34C32 54 62 54 67 34C68 55 64 72 52 86",
];

function newCanvas(side) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = side;
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.fillRect(0, 0, side, side);
  return [canvas, context];
}

class Pad {
  // canvas: where to draw; about: what the net takes; changed: called when the image is another; problem: told a sentence.
  constructor(canvas, about, options, changed, problem) {
    Object.assign(this, { canvas, about, options, changed, problem });
    this.cell = Math.max(1, Math.ceil(280 / about.size)); // samples of the pad per pixel of the image, each way
    this.side = canvas.width = canvas.height = about.size * this.cell;
    this.context = canvas.getContext("2d", { willReadFrequently: true });
    this.drawable = about.channels === 1;
    canvas.classList.toggle("drawable", this.drawable);
    this.photo = null;
    this.clear();
    if (this.drawable) this.listen();
  }

  listen() {
    let last = null;
    const place = (event) => {
      const box = this.canvas.getBoundingClientRect();
      return [((event.clientX - box.left) / box.width) * this.side, ((event.clientY - box.top) / box.height) * this.side];
    };
    const stroke = (event) => {
      const to = place(event);
      this.pencil();
      this.context.beginPath();
      this.context.moveTo(...last);
      this.context.lineTo(...to);
      this.context.stroke();
      last = to;
    };
    this.canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      event.preventDefault();
      if (this.photo) this.clear();
      this.canvas.setPointerCapture(event.pointerId);
      last = place(event);
      stroke(event); // a dot
      this.changed();
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (!last) return;
      const parts = event.getCoalescedEvents ? event.getCoalescedEvents() : [];
      for (const part of parts.length ? parts : [event]) stroke(part);
      this.changed();
    });
    for (const end of ["pointerup", "pointercancel"]) this.canvas.addEventListener(end, () => (last = null));
  }

  pencil() {
    Object.assign(this.context, { strokeStyle: "#fff", lineCap: "round", lineJoin: "round" });
    this.context.lineWidth = this.side / 12.5;
  }

  clear() {
    this.photo = null;
    this.options.centre.checked = this.drawable;
    this.options.invert.checked = false;
    this.context.fillStyle = "#000";
    this.context.fillRect(0, 0, this.side, this.side);
  }

  digit(number) {
    this.clear();
    this.pencil();
    this.context.save();
    this.context.scale(this.side / 100, this.side / 100);
    this.context.lineWidth = 8;
    this.context.stroke(new Path2D(DIGITS[number]));
    this.context.restore();
  }

  rings() {
    const [canvas, context] = newCanvas(this.about.size), size = this.about.size;
    for (let ring = 9; ring > 0; ring--) {
      context.fillStyle = `hsl(${ring * 40} 70% ${ring % 2 ? 30 : 65}%)`;
      context.beginPath();
      context.arc(size * 0.45, size * 0.5, (ring * size) / 16, 0, 7);
      context.fill();
    }
    this.show(canvas);
  }

  show(photo) {
    this.clear();
    this.photo = photo;
    this.options.centre.checked = false;
    this.context.drawImage(photo, 0, 0, this.side, this.side);
  }

  async open(file) {
    let bitmap;
    try {
      bitmap = await createImageBitmap(file);
    } catch {
      return this.problem(`${file.name || "this"} cannot be read as a picture: choose a PNG, JPEG, WebP or GIF file`);
    }
    const { width, height } = bitmap, square = Math.min(width, height), lowest = this.about.resolutions[0];
    if (square < lowest) {
      return this.problem(`${file.name} has ${width} x ${height} pixels: choose one of at least ${lowest} x ${lowest}`);
    }
    const side = Math.min(square, this.about.maxSide);
    const [canvas, context] = newCanvas(side);
    context.imageSmoothingQuality = "high";
    context.clearRect(0, 0, side, side);
    context.drawImage(bitmap, (width - square) / 2, (height - square) / 2, square, square, 0, 0, side, side);
    fillBehind(canvas, this.about.light);
    this.show(canvas);
    if (this.about.light !== null) this.options.invert.checked = borderLightness(grey(canvas), side) > this.about.light;
    this.changed();
  }

  // The image: side, and bytes row by row, channels last.
  image() {
    const source = this.photo || this.canvas, invert = this.options.invert.checked, side = source.width;
    if (this.about.channels !== 1) {
      const rgba = source.getContext("2d").getImageData(0, 0, side, side).data, bytes = new Uint8Array(side * side * 3);
      for (let i = 0, j = 0; i < rgba.length; i++) if (i % 4 < 3) bytes[j++] = invert ? 255 - rgba[i] : rgba[i];
      return { side, bytes };
    }
    let ink = grey(source);
    if (invert) ink = ink.map((value) => 255 - value);
    if (this.options.centre.checked) return this.shrunk(centred(ink, side, this.side), this.side);
    return this.photo ? { side, bytes: ink } : this.shrunk(ink, side);
  }

  // Means over cells: what a sensor with as many pixels would see.
  shrunk(ink, side) {
    const { cell } = this, n = this.about.size, bytes = new Uint8Array(n * n);
    for (let row = 0; row < n; row++) {
      for (let column = 0; column < n; column++) {
        let sum = 0;
        for (let i = 0; i < cell; i++) {
          for (let j = 0; j < cell; j++) sum += ink[(row * cell + i) * side + column * cell + j];
        }
        bytes[row * n + column] = Math.round(sum / (cell * cell));
      }
    }
    return { side: n, bytes };
  }
}

function grey(canvas) {
  const side = canvas.width, rgba = canvas.getContext("2d").getImageData(0, 0, side, side).data;
  const lightness = (i) => (299 * rgba[i] + 587 * rgba[i + 1] + 114 * rgba[i + 2]) / 1000;
  return Uint8Array.from({ length: side * side }, (_, i) => lightness(4 * i));
}

// White behind what is transparent; black where light ink is wanted and the ink is light.
function fillBehind(canvas, light) {
  const context = canvas.getContext("2d"), rgba = context.getImageData(0, 0, canvas.width, canvas.height).data;
  let opacity = 0, ink = 0;
  for (let i = 0; i < rgba.length; i += 4) {
    opacity += rgba[i + 3];
    ink += (rgba[i + 3] * (299 * rgba[i] + 587 * rgba[i + 1] + 114 * rgba[i + 2])) / 255000;
  }
  context.globalCompositeOperation = "destination-over";
  context.fillStyle = light !== null && ink > light * opacity ? "#000" : "#fff";
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.globalCompositeOperation = "source-over";
}

// From 0 to 1, as dark_on_light in models/preprocessing.py.
function borderLightness(ink, side) {
  let sum = 0;
  for (let i = 0; i < side; i++) sum += ink[i] + ink[(side - 1) * side + i] + ink[i * side] + ink[i * side + side - 1];
  return sum / (4 * side) / 255;
}

// As MNIST was made: the ink fits a box of 20/28 of the side, its centre of mass is the centre of the image.
function centred(ink, side, target) {
  let mass = 0, x = 0, y = 0, left = side, right = -1, top = side, bottom = -1;
  for (let row = 0; row < side; row++) {
    for (let column = 0; column < side; column++) {
      const value = ink[row * side + column];
      mass += value;
      x += value * (column + 0.5);
      y += value * (row + 0.5);
      if (value > 60) {
        left = Math.min(left, column);
        right = Math.max(right, column);
        top = Math.min(top, row);
        bottom = Math.max(bottom, row);
      }
    }
  }
  if (right < left) return new Uint8Array(target * target);
  const [from, context] = newCanvas(side), [to, drawing] = newCanvas(target), pixels = context.createImageData(side, side);
  for (let i = 0; i < ink.length; i++) pixels.data.set([ink[i], ink[i], ink[i], 255], 4 * i);
  context.putImageData(pixels, 0, 0);
  const scale = (target * 20) / 28 / Math.max(right - left + 1, bottom - top + 1);
  drawing.imageSmoothingQuality = "high";
  drawing.setTransform(scale, 0, 0, scale, target / 2 - (scale * x) / mass, target / 2 - (scale * y) / mass);
  drawing.drawImage(from, 0, 0);
  return grey(to);
}
