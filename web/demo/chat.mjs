// SPDX-License-Identifier: MIT
// The chat tab: a conversation with a language model, token by token.
import { Loader, examples } from './loader.mjs';
import { showMarkdown } from './markdown.mjs';
import { $, explain, make, seconds, setState } from './ui.mjs';

const EXAMPLES = ['Why is the sky blue?', 'Write a haiku about autumn.',
                  'What is a neural network, in one sentence?'];
const KEPT = 'rlx-demo-chat'; // the conversation, in the storage of the browser
const FINISHES = { length: 'cut at the longest answer', cancelled: 'stopped',
                   context: 'the conversation is full: start a new one' };

export class Chat {
    #root = $('#panel-chat');
    #log = $('#panel-chat .log');
    #prompt = $('#prompt');
    #messages = [];
    #follow = true; // the log shows the end, until someone scrolls up
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
        this.#log.onscroll = () => {
            this.#follow = this.#log.scrollHeight - this.#log.scrollTop
                - this.#log.clientHeight < 40;
        };
        new ResizeObserver(() => this.#scroll()).observe(this.#log);
        $('#system').onchange = () => this.#keep();
        this.#restore();
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

    // ---- What outlives a reload -----------------------------------------------------------------

    #keep() {
        try {
            localStorage.setItem(KEPT, JSON.stringify({ system: $('#system').value,
                                                        messages: this.#messages }));
        } catch {
            // Storage is switched off or full: the conversation ends with the page.
        }
    }

    #restore() {
        let kept = null;
        try {
            kept = JSON.parse(localStorage.getItem(KEPT));
        } catch {
            // As above, or written by someone else.
        }
        $('#system').value = String(kept?.system ?? '');
        const isMessage = m => ['user', 'assistant'].includes(m?.role)
            && typeof m.content === 'string';
        const messages = Array.isArray(kept?.messages) && kept.messages.every(isMessage)
            ? kept.messages : [];
        this.#welcome();
        for (const message of messages) {
            const bubble = this.#add(message.role, message.content);
            this.#messages.push(message);
            if (message.role === 'assistant') this.#addActions(bubble);
        }
    }

    // ---- The log --------------------------------------------------------------------------------

    #welcome() {
        const pick = text => this.#send(text);
        this.#log.replaceChildren(make('div', { className: 'welcome' },
            make('p', { textContent: 'The model is here. Ask it something, or try:' }),
            make('div', { className: 'examples' }, ...examples(EXAMPLES, pick))));
    }

    #reset() {
        this.#controller?.abort();
        this.#messages = [];
        this.#welcome();
        this.#keep();
    }

    #scroll() {
        if (this.#follow) this.#log.scrollTop = this.#log.scrollHeight;
    }

    #add(role, text) {
        if (!this.#messages.length) this.#log.replaceChildren();
        const content = make('div', { className: 'text' });
        const bubble = make('div', { className: `message ${role}` }, content);
        if (role === 'user') content.textContent = text;
        else showMarkdown(content, text);
        this.#log.append(bubble);
        this.#follow = true;
        this.#scroll();
        return bubble;
    }

    /** What can be done with an answer; only the last one can be changed. */
    #addActions(bubble, isCut = false) {
        this.#log.querySelectorAll('.actions .change').forEach(button => button.remove());
        const button = (textContent, className, onclick) =>
            make('button', { type: 'button', textContent, className, onclick });
        const copy = button('Copy', 'copy', async () => {
            await navigator.clipboard.writeText(bubble.dataset.source ?? this.#textOf(bubble));
            copy.textContent = 'Copied';
            setTimeout(() => { copy.textContent = 'Copy'; }, 1500);
        });
        const actions = make('div', { className: 'actions' }, copy,
            button('Again', 'change again', () => this.#again()));
        if (isCut) actions.append(button('Continue', 'change continue', () => this.#continue()));
        bubble.append(actions);
        this.#scroll();
    }

    #textOf(bubble) {
        const answers = [...this.#log.querySelectorAll('.message.assistant')];
        return this.#messages.filter(({ role }) => role === 'assistant')[answers.indexOf(bubble)]
            ?.content ?? '';
    }

    #setBusy(isBusy) {
        $('.send', this.#root).hidden = isBusy;
        $('.stop', this.#root).hidden = !isBusy;
        setState(isBusy ? 'generating' : 'ready');
    }

    // ---- Answers --------------------------------------------------------------------------------

    async #send(text) {
        if (!text || this.#controller || !this.loader.model) return;
        this.#prompt.value = '';
        this.#prompt.style.height = 'auto';
        this.#add('user', text);
        this.#messages.push({ role: 'user', content: text });
        await this.#respond();
    }

    /** Takes the last answer back and asks for another one. */
    async #again() {
        if (this.#controller || !this.loader.model) return;
        this.#takeBack();
        await this.#respond();
    }

    /** Goes on where the last answer was cut. */
    async #continue() {
        if (this.#controller || !this.loader.model) return;
        const begun = this.#messages.at(-1).content;
        this.#takeBack();
        await this.#respond(begun);
    }

    #takeBack() {
        this.#messages.pop();
        this.#log.lastElementChild.remove();
    }

    async #respond(begun = '') {
        const bubble = this.#add('assistant', begun);
        bubble.classList.add('busy');
        this.#controller = new AbortController();
        this.#setBusy(true);
        try {
            await this.#answer(bubble, begun);
        } catch (error) {
            bubble.classList.add('error');
            bubble.firstChild.textContent = explain(error);
            if (begun) this.#messages.push({ role: 'assistant', content: begun });
            else this.#messages.pop();
        } finally {
            bubble.classList.remove('busy');
            this.#controller = null;
            this.#setBusy(false);
            this.#keep();
        }
    }

    /** What the model is given: instructions, the conversation, and of an answer that goes on what
     * there is of it. */
    #conversation(begun) {
        const system = $('#system').value.trim();
        const all = [...system ? [{ role: 'system', content: system }] : [], ...this.#messages];
        if (begun)
            all.push({ role: 'assistant', content: begun },
                     { role: 'user', content: 'Go on exactly where you stopped.' });
        return all;
    }

    async #answer(bubble, begun) {
        const messages = this.#messages, begin = performance.now(), content = bubble.firstChild;
        const { temperature, maxTokens } = this.#app.settings();
        let first = 0, count = 0, text = begun, isDrawn = true;
        const draw = () => {
            isDrawn = true;
            showMarkdown(content, text);
            this.#scroll();
        };
        const generation = this.loader.model.generate(this.#conversation(begun), {
            temperature, maxTokens, topP: temperature ? 0.95 : 0, seed: Date.now() % 2 ** 31,
            signal: this.#controller.signal,
            onToken: piece => {
                const now = performance.now();
                first ||= now;
                count++;
                text += piece.text;
                if (isDrawn) requestAnimationFrame(draw); // once a frame, however fast it is
                isDrawn = false;
                this.#count(begin, first, now, count);
            },
        });
        const result = await generation;
        text = begun + result.text;
        draw();
        const note = FINISHES[result.finish];
        if (note) bubble.append(make('span', { className: 'note', textContent: note }));
        if (messages !== this.#messages) return; // a new conversation has begun
        messages.push({ role: 'assistant', content: text });
        bubble.dataset.tokens = result.tokenIds.join(' ');
        bubble.dataset.source = text;
        this.#addActions(bubble, ['length', 'cancelled'].includes(result.finish));
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
