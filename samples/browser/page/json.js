// Reads the JSON files of a bundle, and names the place of a value that is not as expected:
//
//   golden.json: is damaged: inputs: 0: shape: got null, expected a list: copy or download the bundle again
//
// A check is a function of a value and its place, which throws if the value is not as expected.

export function readJson(bytes, name, check) {
  try {
    const content = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
    check(content, "");
    return content;
  } catch (error) {
    throw damaged(name, error.message);
  }
}

export function damaged(name, reason) {
  return new Error(`${name}: is damaged: ${reason}: copy or download the bundle again`);
}

export function kind(expected, isRight) {
  return (value, place) => {
    const got = JSON.stringify(value)?.slice(0, 80) ?? "nothing";
    if (!isRight(value)) throw new TypeError(`${place}got ${got}, expected ${expected}`);
  };
}

export const TEXT = kind("a text", (value) => typeof value === "string");
export const WHOLE = kind("a whole number", (value) => Number.isSafeInteger(value) && value >= 0);
const LIST = kind("a list", Array.isArray);
const OBJECT = kind("an object", (value) => typeof value === "object" && value !== null && !Array.isArray(value));

export function listOf(check) {
  return (value, place) => {
    LIST(value, place);
    value.forEach((item, at) => check(item, `${place}${at}: `));
  };
}

// An object of any keys, such as names of files.
export function mapOf(check) {
  return (value, place) => {
    OBJECT(value, place);
    Object.entries(value).forEach(([key, item]) => check(item, `${place}${key}: `));
  };
}

// An object of known keys; others are not looked at.
export function objectOf(checks) {
  return (value, place) => {
    OBJECT(value, place);
    Object.entries(checks).forEach(([key, check]) => check(value[key], `${place}${key}: `));
  };
}

export function optional(check) {
  return (value, place) => {
    if (value !== undefined) check(value, place);
  };
}
