// SPDX-License-Identifier: MIT
// The search tab: sentences and a query become vectors; the nearest sentences are shown.
import { Loader, examples } from './loader.mjs';
import { $, explain, make, seconds, setState } from './ui.mjs';

const EXAMPLES = ['food without meat', 'staying healthy', 'how stars work', 'travel by train'];
const SENTENCES = `The night train from Vienna reaches Venice at breakfast time.
Lentil curry with spinach is ready in half an hour.
Our sun turns hydrogen into helium in its core.
A short walk after dinner helps you sleep better.
The orchestra tunes to the oboe before every concert.
Grilled vegetables need nothing but olive oil and salt.
The old lighthouse has been empty since the storm of 1962.
Neutron stars are so dense that a spoonful weighs more than a mountain.
Drinking enough water keeps your head clear.
She repaired the bicycle with parts from three others.
The library lends musical instruments as well as books.
Bees find their way home by the position of the sun.
High-speed rail links Madrid and Barcelona in under three hours.
The recipe asks for two eggs, flour and a pinch of nutmeg.
Regular stretching prevents pain in the lower back.
In winter the lake freezes and children skate on it.
The new law protects tenants from sudden rent increases.
A telescope in the desert photographs galaxies billions of light years away.
The goalkeeper saved two penalties in the final.
Potatoes came to Europe from South America.
The programmer found the bug after reading the code aloud.
Ferries to the island leave every hour in summer.
The museum shows clocks that were built four hundred years ago.
Too little sleep weakens the immune system.`;

export class Search {
    #root = $('#panel-search');
    #status = $('#search-status');
    #sentences = [];
    #vectors = [];
    #app;

    constructor(app, model) {
        this.#app = app;
        this.loader = new Loader($('.loader', this.#root), app, {
            title: 'Search by meaning',
            about: 'MiniLM turns sentences into vectors of 384 numbers. Sentences that mean the '
                + 'same are near each other, even when they share no word.',
            ...model, stage: $('.search', this.#root),
            onReady: loader => this.#ready(loader),
        });
        $('form', this.#root).onsubmit = event => {
            event.preventDefault();
            this.#find($('#query').value.trim());
        };
        $('#sentences').value = SENTENCES;
        $('#index').onclick = () => this.#index().catch(() => setState('failed'));
        $('#query-examples').append(...examples(EXAMPLES, text => {
            $('#query').value = text;
            this.#find(text);
        }));
        this.#allow(false);
    }

    showStats() {
        this.#app.labels('Last query', 'Sentences/s', 'Sentences');
        this.#app.stats(this.stats ?? {});
    }

    async #ready(loader) {
        if (!loader.model.info.embeds)
            throw Object.assign(new Error('this model makes no embeddings: choose an encoder such '
                + 'as MiniLM'), { status: 'unsupported' });
        this.stats = { load: seconds(loader.loadSeconds) };
        await this.#index();
        $('#query').focus({ preventScroll: true });
    }

    /** Nothing can be looked for while the sentences are read. */
    #allow(isReady) {
        for (const button of this.#root.querySelectorAll('.search button'))
            button.disabled = !isReady;
    }

    async #index() {
        this.#allow(false);
        try {
            await this.#read();
            this.#allow(true);
        } catch (error) {
            this.#vectors = [];
            this.#status.textContent = explain(error);
            $('#index').disabled = false;
            throw error;
        }
    }

    async #read() {
        this.#vectors = [];
        this.#sentences = $('#sentences').value.split('\n').map(s => s.trim()).filter(Boolean);
        const n = this.#sentences.length, begin = performance.now();
        setState('indexing');
        this.#vectors = await this.loader.model.embed(this.#sentences, {
            onProgress: ({ done }) => {
                this.#status.textContent = `Reading the sentences: ${done} of ${n}`;
            } });
        const time = (performance.now() - begin) / 1000;
        this.stats = { ...this.stats, speed: (n / time).toFixed(0), count: String(n) };
        this.showStats();
        this.#status.textContent = `${n} sentences are ready. Describe what you look for.`;
        $('.results', this.#root).replaceChildren();
        setState('ready');
    }

    async #find(query) {
        if (!query || !this.loader.model || !this.#vectors.length) return;
        setState('searching');
        const begin = performance.now();
        const vector = await this.loader.model.embed(query);
        this.stats = { ...this.stats, first: seconds((performance.now() - begin) / 1000) };
        this.showStats();
        const scored = this.#sentences.map((text, i) => ({
            text, score: vector.reduce((sum, x, k) => sum + x * this.#vectors[i][k], 0) }));
        scored.sort((a, b) => b.score - a.score);
        this.#status.textContent = `Nearest to “${query}”:`;
        $('.results', this.#root).replaceChildren(...scored.slice(0, 6).map(showResult));
        setState('ready');
    }
}

function showResult({ text, score }) {
    const fill = make('span');
    fill.style.width = `${Math.max(2, Math.round(score * 100))}%`;
    return make('li', {}, make('span', { textContent: text }),
                make('span', { className: 'score', textContent: score.toFixed(2),
                               title: 'cosine of the angle between the vectors' }),
                make('div', { className: 'bar', ariaHidden: 'true' }, fill));
}
