/** Pictures: from a file, dropped, from the camera, and back from a tensor. */
import { Tensor } from "../sdk/session.js";
import { button, choice, make } from "./dom.js";

/** @import { Port, Source } from "./types.js" */
/** @typedef {{width: number, height: number, colours: number, last: boolean}} Form `last`: colours are the last axis */

const MEANS = [0.485, 0.456, 0.406];
const DEVIATIONS = [0.229, 0.224, 0.225];
/** From a byte of a colour to the model's value, and back. @type {Record<string, {words: string, to: (v: number, c: number) => number, from: (v: number, c: number) => number}>} */
const SCALES = {
  unit: { words: "0 to 1", to: (v) => v / 255, from: (v) => v * 255 },
  signed: { words: "−1 to 1", to: (v) => v / 127.5 - 1, from: (v) => (v + 1) * 127.5 },
  imagenet: {
    words: "ImageNet's mean and deviation",
    to: (v, c) => (v / 255 - MEANS[c]) / DEVIATIONS[c],
    from: (v, c) => (v * DEVIATIONS[c] + MEANS[c]) * 255,
  },
  bytes: { words: "0 to 255", to: (v) => v, from: (v) => v },
};

/** @param {readonly number[]} shape @returns {Form} */
export function formOf(shape) {
  const last = !(shape[1] === 1 || shape[1] === 3);
  const [height, width, colours] = last ? [shape[1], shape[2], shape[3]] : [shape[2], shape[3], shape[1]];
  return { width, height, colours, last };
}

/** @param {ArrayLike<number>} data @param {string} type */
export function scaleOf(data, type) {
  if (type === "uint8") return "bytes";
  let [low, high] = [Infinity, -Infinity];
  for (let i = 0; i < data.length; i++) [low, high] = [Math.min(low, data[i]), Math.max(high, data[i])];
  if (low < -1.05) return "imagenet";
  return high > 3 ? "bytes" : low < -0.05 ? "signed" : "unit";
}

/**
 * Values of the model from bytes of red, green, blue and alpha, four for each point.
 * @param {ArrayLike<number>} rgba
 * @param {Form} form
 * @param {string} scale
 */
export function valuesOf(rgba, { width, height, colours, last }, scale) {
  const values = new Float32Array(width * height * colours);
  const { to } = SCALES[scale];
  for (let i = 0; i < width * height; i++) {
    const [r, g, b] = [rgba[4 * i], rgba[4 * i + 1], rgba[4 * i + 2]];
    const each = colours === 1 ? [0.299 * r + 0.587 * g + 0.114 * b] : [r, g, b];
    for (let c = 0; c < colours; c++) values[last ? i * colours + c : c * width * height + i] = to(each[c], c);
  }
  return values;
}

/** The first picture of a tensor. @param {ArrayLike<number>} data @param {Form} form @param {string} scale */
export function canvasOf(data, { width, height, colours, last }, scale) {
  const canvas = make("canvas", { width, height });
  const image = new ImageData(width, height);
  const { from } = SCALES[scale];
  for (let i = 0; i < width * height; i++) {
    for (let c = 0; c < 3; c++) {
      const colour = Math.min(c, colours - 1);
      image.data[4 * i + c] = from(Number(data[last ? i * colours + colour : colour * width * height + i]), colour);
    }
    image.data[4 * i + 3] = 255;
  }
  canvas.getContext("2d")?.putImageData(image, 0, 0);
  return canvas;
}

/** Something to look at where no sample came along. @param {CanvasRenderingContext2D} context @param {Form} form */
function paint(context, { width, height }) {
  const ground = context.createLinearGradient(0, 0, width, height);
  ground.addColorStop(0, "#8fc1ff");
  ground.addColorStop(1, "#f0933f");
  context.fillStyle = ground;
  context.fillRect(0, 0, width, height);
  context.fillStyle = "#0b5cb8";
  context.beginPath();
  context.arc(width / 2, height / 2, Math.min(width, height) / 4, 0, 7);
  context.fill();
}

/**
 * @param {Port} port
 * @param {Tensor | null} sample
 * @returns {Source}
 */
export function pictureSource({ name, type, shape }, sample) {
  const form = formOf(shape);
  const first = sample ? scaleOf(sample.data, type) : type === "uint8" ? "bytes" : "unit";
  const canvas = sample ? canvasOf(sample.data, form, first) : make("canvas", { width: form.width, height: form.height });
  canvas.classList.toggle("small", form.width < 160);
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `Picture for ${name}, ${form.width} by ${form.height}`);
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d", { willReadFrequently: true }));
  if (!sample) paint(context, form);
  let given = Boolean(sample); // the sample's own values, until another picture comes
  const scale = choice("Values", Object.entries(SCALES).map(([each, { words }]) => [each, words]), first);
  scale.control.addEventListener("change", () => (given = false));

  /** @param {CanvasImageSource} image @param {number} width @param {number} height */
  const take = (image, width, height) => {
    const by = Math.max(form.width / width, form.height / height); // fills the model's picture
    context.drawImage(image, (form.width - width * by) / 2, (form.height - height * by) / 2, width * by, height * by);
    given = false;
  };
  const frame = make("div", { className: "frame" }, canvas);
  const said = make("span", { className: "quiet", role: "status" });
  /** @param {Blob | null | undefined} file */
  const open = async (file) => {
    if (!file) return;
    try {
      const image = await createImageBitmap(file);
      take(image, image.width, image.height);
      said.textContent = "";
    } catch {
      said.textContent = "This file is no picture that the browser can read.";
    }
  };
  frame.addEventListener("dragover", (event) => (event.preventDefault(), frame.classList.add("over")));
  frame.addEventListener("dragleave", () => frame.classList.remove("over"));
  frame.addEventListener("drop", (event) => {
    event.preventDefault();
    frame.classList.remove("over");
    open(event.dataTransfer?.files[0]);
  });
  const file = make("input", { type: "file", accept: "image/*", "aria-label": `Picture file for ${name}` });
  file.addEventListener("change", () => open(file.files?.[0]));
  return {
    element: make("div", { className: "part" }, make("h2", {}, name), frame, make("div", { className: "row" }, file, camera(frame, take, said), said), scale.element),
    canvas,
    label: () => (given ? "the sample picture" : "this picture"),
    feeds: async () => {
      if (given && sample) return { [name]: sample };
      const values = valuesOf(context.getImageData(0, 0, form.width, form.height).data, form, scale.control.value);
      return { [name]: new Tensor(type, type === "float32" ? values : Array.from(values, type === "float16" ? Number : Math.round), shape) };
    },
  };
}

/**
 * A button that shows the camera, and then takes its picture.
 * @param {HTMLElement} frame
 * @param {(image: HTMLVideoElement, width: number, height: number) => void} take
 * @param {HTMLElement} said
 */
function camera(frame, take, said) {
  const video = make("video", { muted: true, playsInline: true, hidden: true, "aria-label": "Camera" });
  frame.append(video);
  const control = button("Camera", async () => {
    const stream = /** @type {MediaStream | null} */ (video.srcObject);
    if (stream) {
      take(video, video.videoWidth, video.videoHeight);
      for (const track of stream.getTracks()) track.stop();
      video.srcObject = null;
    } else {
      try {
        video.srcObject = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
        await video.play();
        said.textContent = "";
      } catch (e) {
        said.textContent = navigator.mediaDevices ? `No camera: ${/** @type {Error} */ (e).message}.` : "Browsers give the camera over https and on localhost only.";
        video.srcObject = null;
      }
    }
    video.hidden = !video.srcObject;
    /** @type {HTMLElement} */ (frame.querySelector("canvas")).hidden = !video.hidden;
    control.textContent = video.srcObject ? "Take the picture" : "Camera";
  });
  return control;
}
