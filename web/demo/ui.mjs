// SPDX-License-Identifier: MIT
// Small helpers of the demo page: finding and making elements, words for numbers.

export const $ = (selector, root = document) => root.querySelector(selector);

/** An element with properties and children. */
export function make(tag, properties = {}, ...children) {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
}

export function megabytes(bytes) {
    if (bytes >= 1e9) return `${(bytes / 1e9).toFixed(2)} GB`;
    return `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`;
}

export function seconds(value) {
    if (!Number.isFinite(value)) return '–';
    return value < 1 ? `${Math.round(value * 1000)} ms` : `${value.toFixed(value < 10 ? 2 : 1)} s`;
}

/** What the page is doing, for tests and style sheets. */
export function setState(state) {
    document.body.dataset.state = state;
}

/** A sentence for people about an error of rlx. */
export function explain(error) {
    const advice = {
        'out of memory': ' Close other tabs, or choose a smaller model.',
        'device lost': ' The graphics driver was reset; load the model again.',
        'no device': '',
    }[error.status] ?? '';
    const text = error.message.charAt(0).toUpperCase() + error.message.slice(1);
    return (/[.!?]$/.test(text) ? text : `${text}.`) + advice;
}
