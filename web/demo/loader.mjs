// SPDX-License-Identifier: MIT
// The card that loads a model: what it is, a button, the progress of the download, problems.
import { $, explain, make, megabytes, setState } from './ui.mjs';

export class Loader {
    #root;
    #app;
    #options;
    #controller = null;
    #lastSource = null;
    #fileName = '';

    /**
     * `options`: { title, about, url, bytes, missing, policy, stage, onReady }; `app` gives the
     * rlx object and the device; `stage` is shown instead of the card when the model is there.
     */
    constructor(root, app, options) {
        this.#root = root;
        this.#app = app;
        this.#options = options;
        this.model = null;
        root.append($('#loader-template').content.cloneNode(true));
        $('h1', root).textContent = options.title;
        $('.about', root).textContent = options.about;
        $('.load', root).onclick = () => this.load(this.#options.url);
        $('.cancel', root).onclick = () => this.#controller?.abort();
        $('.retry-cpu', root).onclick = () => {
            app.selectDevice('cpu');
            this.load(this.#lastSource);
        };
        $('input[type=file]', root).onchange = event => this.#openFiles([...event.target.files]);
        this.describe();
    }

    /** What is known about the model before it is loaded. */
    async describe() {
        const { url, bytes, missing } = this.#options, facts = $('.facts', this.#root);
        $('.load', this.#root).disabled = Boolean(missing);
        if (missing) {
            facts.textContent = missing;
            return;
        }
        const size = bytes ? megabytes(bytes) : 'size unknown';
        const stored = await this.#app.rlx.isStored(url);
        facts.textContent = stored ? `${size}, already stored in this browser: works offline.`
            : `${size} to download once; then it is stored in this browser.`;
    }

    get isLoaded() { return Boolean(this.model); }

    #openFiles(files) {
        if (!files.length) return;
        this.#fileName = files[0].name;
        const source = files.length === 1 && /\.gguf$/i.test(files[0].name) ? files[0]
            : { files: Object.fromEntries(files.map(file => [file.name, file])) };
        this.load(source);
    }

    #show(part) {
        $('.actions', this.#root).hidden = part === 'progress';
        $('.progress', this.#root).hidden = part !== 'progress';
        $('.problem', this.#root).hidden = part !== 'problem';
    }

    #progress({ loaded, total, fromCache }) {
        const bar = $('progress', this.#root), isWhole = total && loaded >= total;
        if (total && !isWhole) bar.value = loaded / total;
        else bar.removeAttribute('value');
        $('.what', this.#root).textContent = isWhole ? 'Preparing the model…'
            : fromCache ? 'Reading from this browser…' : 'Downloading…';
        const elapsed = (performance.now() - this.#begin) / 1000;
        const speed = fromCache || elapsed < 0.2 ? '' : ` · ${megabytes(loaded / elapsed)}/s`;
        $('.amount', this.#root).textContent =
            `${megabytes(loaded)}${total ? ` of ${megabytes(total)}` : ''}${speed}`;
    }

    #begin = 0;

    async load(source) {
        if (this.#controller) return;
        this.#lastSource = source;
        this.#controller = new AbortController();
        this.#begin = performance.now();
        setState('loading');
        this.#show('progress');
        $('.what', this.#root).textContent = 'Starting…';
        $('.amount', this.#root).textContent = '';
        $('progress', this.#root).removeAttribute('value');
        try {
            await this.unload();
            this.model = await this.#app.rlx.load(source, {
                device: this.#app.device, policy: this.#options.policy?.() ?? 'exact',
                signal: this.#controller.signal,
                onProgress: event => this.#progress(event) });
            this.loadSeconds = (performance.now() - this.#begin) / 1000;
            this.#show('actions');
            this.#root.hidden = true;
            this.#options.stage.hidden = false;
            await this.#options.onReady(this);
            setState('ready');
        } catch (error) {
            this.#fail(error);
        } finally {
            this.#controller = null;
            this.describe();
        }
    }

    #fail(error) {
        this.#root.hidden = false;
        this.#options.stage.hidden = true;
        setState(error.status === 'cancelled' ? 'idle' : 'failed');
        this.#show(error.status === 'cancelled' ? 'actions' : 'problem');
        $('.actions', this.#root).hidden = false;
        // The library sees the bytes of an opened file only.
        error.message = error.message.replace("'memory'", () => `'${this.#fileName}'`);
        $('.problem p', this.#root).textContent = explain(error);
        $('.retry-cpu', this.#root).hidden = this.#app.device === 'cpu';
    }

    async unload() {
        const model = this.model;
        this.model = null;
        this.#options.onUnload?.();
        await model?.close();
    }

    /** Loads the same model again, when it was loaded: device or policy have changed. */
    async reload() {
        if (this.model || this.#lastSource && document.body.dataset.state === 'failed')
            await this.load(this.#lastSource);
    }
}

/** Buttons that fill in an example. */
export function examples(texts, onPick) {
    return texts.map(text => make('button', { type: 'button', textContent: text,
                                              onclick: () => onPick(text) }));
}
