// SPDX-License-Identifier: MIT
// The chat tab: a conversation with a language model, token by token.
import { Loader, examples } from './loader.mjs';
import { $, explain, make, seconds, setState } from './ui.mjs';

const EXAMPLES = ['Why is the sky blue?', 'Write a haiku about autumn.',
                  'What is a neural network, in one sentence?'];
const FINISHES = { length: 'cut at the longest answer', cancelled: 'stopped',
                   context: 'the conversation is full: start a new one' };

export class Chat {
    #root = $('#panel-chat');
    #log = $('#panel-chat .log');
    #prompt = $('#prompt');
    #messages = [];
    #controller = null;
    #app;

    constructor(app, model) {
        this.#app = app;
        this.loader = new Loader($('.loader', this.#root), app, {
            title: 'Chat with SmolLM2',
            about: 'A small language model with 135 million parameters. It answers in this page, '
                + 'without a server. It is tiny, so take what it says with a grain of salt.',
            ...model, stage: $('.chat', this.#root),
            policy: () => $('#exact').checked ? 'exact' : 'auto',
            onReady: loader => this.#ready(loader),
            onUnload: () => this.#controller?.abort(),
        });
        $('form', this.#root).onsubmit = event => {
            event.preventDefault();
            this.#send(this.#prompt.value.trim());
        };
        $('.stop', this.#root).onclick = () => this.#controller?.abort();
        $('#new-chat').onclick = () => this.#reset();
        $('#exact').onchange = () => this.loader.reload();
        this.#prompt.onkeydown = event => {
            if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
            event.preventDefault();
            $('form', this.#root).requestSubmit();
        };
        this.#prompt.oninput = () => {
            this.#prompt.style.height = 'auto';
            this.#prompt.style.height = `${this.#prompt.scrollHeight + 2}px`;
        };
        this.#reset();
    }

    showStats() {
        this.#app.labels('First token', 'Tokens/s', 'Tokens');
        this.#app.stats(this.stats ?? {});
    }

    #ready(loader) {
        if (!loader.model.info.generates)
            throw Object.assign(new Error('this model does not generate text: choose a language '
                + 'model'), { status: 'unsupported' });
        this.stats = { load: seconds(loader.loadSeconds) };
        this.showStats();
        this.#prompt.focus({ preventScroll: true });
    }

    #reset() {
        this.#controller?.abort();
        this.#messages = [];
        const pick = text => this.#send(text);
        this.#log.replaceChildren(make('div', { className: 'welcome' },
            make('p', { textContent: 'The model is here. Ask it something, or try:' }),
            make('div', { className: 'examples' }, ...examples(EXAMPLES, pick))));
    }

    #add(role, text) {
        if (!this.#messages.length) this.#log.replaceChildren();
        const bubble = make('div', { className: `message ${role}` }, make('span',
                                                                        { textContent: text }));
        this.#log.append(bubble);
        this.#log.scrollTop = this.#log.scrollHeight;
        return bubble;
    }

    #setBusy(isBusy) {
        $('.send', this.#root).hidden = isBusy;
        $('.stop', this.#root).hidden = !isBusy;
        setState(isBusy ? 'generating' : 'ready');
    }

    async #send(text) {
        if (!text || this.#controller || !this.loader.model) return;
        this.#prompt.value = '';
        this.#prompt.style.height = 'auto';
        this.#add('user', text);
        this.#messages.push({ role: 'user', content: text });
        const bubble = this.#add('assistant', '');
        bubble.classList.add('busy');
        this.#controller = new AbortController();
        this.#setBusy(true);
        try {
            await this.#answer(bubble);
        } catch (error) {
            bubble.classList.add('error');
            bubble.firstChild.textContent = explain(error);
            this.#messages.pop();
        } finally {
            bubble.classList.remove('busy');
            this.#controller = null;
            this.#setBusy(false);
        }
    }

    async #answer(bubble) {
        const messages = this.#messages, span = bubble.firstChild, begin = performance.now();
        const { temperature, maxTokens } = this.#app.settings();
        let first = 0, count = 0;
        const generation = this.loader.model.generate([...messages], {
            temperature, maxTokens, topP: temperature ? 0.95 : 0, seed: Date.now() % 2 ** 31,
            signal: this.#controller.signal,
            onToken: piece => {
                const now = performance.now();
                first ||= now;
                count++;
                const atEnd = this.#log.scrollHeight - this.#log.scrollTop
                    - this.#log.clientHeight < 60;
                span.textContent += piece.text;
                if (atEnd) this.#log.scrollTop = this.#log.scrollHeight;
                this.#count(begin, first, now, count);
            },
        });
        const result = await generation;
        const note = FINISHES[result.finish];
        if (note) bubble.append(make('span', { className: 'note', textContent: note }));
        if (messages === this.#messages)
            messages.push({ role: 'assistant', content: result.text });
        bubble.dataset.tokens = result.tokenIds.join(' ');
    }

    #count(begin, first, now, count) {
        this.stats = {
            load: seconds(this.loader.loadSeconds), first: seconds((first - begin) / 1000),
            speed: count > 1 ? ((count - 1) / ((now - first) / 1000)).toFixed(1) : '–',
            count: String(count),
        };
        this.#app.stats(this.stats);
    }
}
