// SPDX-License-Identifier: MIT
// The chat page of the server: conversations, kept in this browser, with the models it serves.
import { showMarkdown } from './markdown.mjs';
import { answer, listModels } from './server.mjs';
import { $, explain, make, seconds, setState } from './ui.mjs';

const STORE = 'rlx.chat';
const EXAMPLES = ['Why is the sky blue?', 'Write a haiku about autumn.',
                  'Show how to sort a list in Python.'];
const DEFAULTS = { system: '', temperature: 0.7, topP: 0.95, maxTokens: 512, key: '', model: '' };

// ---- What is kept -------------------------------------------------------------------------------

const saved = (() => {
    try {
        return JSON.parse(localStorage.getItem(STORE)) ?? {};
    } catch {
        return {};
    }
})();
const settings = { ...DEFAULTS, ...saved.settings };
let conversations = Array.isArray(saved.conversations) ? saved.conversations : [];
let current = conversations.find(one => one.id === saved.current) ?? conversations[0] ?? null;
let running = null; // the controller of the answer that is being made

function save() {
    const keep = list => localStorage.setItem(STORE, JSON.stringify(
        { settings, current: current?.id, conversations: list }));
    for (let n = conversations.length; ; n = n >> 1)
        try {
            return keep(conversations.slice(0, n)); // newest first
        } catch (error) {
            if (!n) return console.warn(`conversations are not kept: ${error.message}`);
        }
}

// ---- Conversations ------------------------------------------------------------------------------

function startConversation() {
    running?.abort();
    current = null;
    showAll();
    $('#prompt').focus({ preventScroll: true });
}

function ensureConversation(text) {
    if (current) return;
    current = { id: `${Date.now()}-${Math.random().toString(36).slice(2)}`,
                title: text.slice(0, 80).split('\n')[0], system: settings.system, messages: [] };
    conversations.unshift(current);
}

function selectConversation(one) {
    running?.abort();
    current = one;
    closeDrawer();
    showAll();
    save();
}

function removeConversation(one) {
    if (one === current) running?.abort();
    conversations = conversations.filter(other => other !== one);
    if (one === current) current = conversations[0] ?? null;
    showAll();
    save();
}

function showList() {
    $('#list').replaceChildren(...conversations.map(one => {
        const item = make('li', {},
            make('button', { type: 'button', className: 'open', textContent: one.title,
                             title: one.title, onclick: () => selectConversation(one) }),
            make('button', { type: 'button', className: 'quiet remove', textContent: '✕',
                             ariaLabel: `Remove “${one.title}”`,
                             onclick: () => removeConversation(one) }));
        item.ariaCurrent = String(one === current);
        return item;
    }));
}

// ---- The log ------------------------------------------------------------------------------------

const log = $('#log');
const isAtEnd = () => log.scrollHeight - log.scrollTop - log.clientHeight < 80;
const tool = (textContent, onclick) => make('button', { type: 'button', textContent, onclick });

function speedOf({ tokens, seconds: time, first }) {
    const speed = tokens > 1 && time > 0 ? ` · ${((tokens - 1) / time).toFixed(1)} tokens/s` : '';
    return `${tokens} tokens${speed} · first after ${seconds(first)}`;
}

function toolsOf(message, index) {
    const isLast = index === current.messages.length - 1;
    const copy = tool('Copy', async () => {
        await navigator.clipboard.writeText(message.content);
        copy.textContent = 'Copied';
        setTimeout(() => { copy.textContent = 'Copy'; }, 1500);
    });
    const tools = make('div', { className: 'tools' }, copy,
                       tool('Edit', () => edit(message, index)));
    if (message.role === 'assistant' && isLast)
        tools.append(tool('Regenerate', () => regenerate()), tool('Continue', () => goOn()));
    if (message.role === 'user' && isLast) tools.append(tool('Answer', () => generate()));
    if (message.stats)
        tools.append(make('span', { className: 'speed', textContent: speedOf(message.stats) }));
    return tools;
}

function showMessage(message, index) {
    const bubble = make('div', { className: `message ${message.role}` });
    const turn = make('div', { className: `turn ${message.role}` }, bubble);
    if (message.role === 'user') bubble.textContent = message.content;
    else showMarkdown(bubble, message.content);
    if (message.problem)
        turn.append(make('div', { className: 'error', role: 'alert',
                                  textContent: explain({ message: message.problem }) }));
    else if (message.note)
        bubble.append(make('p', { className: 'note', textContent: message.note }));
    turn.append(toolsOf(message, index));
    return turn;
}

function showLog() {
    if (current?.messages.length) {
        log.replaceChildren(...current.messages.map(showMessage));
    } else {
        const examples = EXAMPLES.map(text => tool(text, () => send(text)));
        log.replaceChildren(make('div', { className: 'welcome' },
            make('p', { textContent: 'Ask the model something, or try:' }),
            make('div', { className: 'examples' }, ...examples)));
    }
    log.scrollTop = log.scrollHeight;
}

function showAll() {
    $('#title').textContent = current?.title ?? 'New conversation';
    document.title = current ? `${current.title} · rlx` : 'rlx · chat';
    showList();
    showLog();
    showSettings();
}

/** An editor instead of a message. Another question is answered anew; what came after it goes. */
function edit(message, index) {
    const turn = log.children[index];
    const text = make('textarea', { value: message.content, ariaLabel: 'The message' });
    const done = () => {
        message.content = text.value;
        delete message.stats;
        delete message.note;
        if (message.role === 'user') {
            current.messages.length = index + 1;
            generate();
        } else {
            save();
            showLog();
        }
    };
    const isUser = message.role === 'user';
    turn.replaceChildren(text, make('div', { className: 'tools' },
        tool(isUser ? 'Send' : 'Save', done), tool('Cancel', showLog)));
    text.rows = Math.min(12, message.content.split('\n').length + 1);
    text.focus();
}

// ---- Answers ------------------------------------------------------------------------------------

function setBusy(isBusy) {
    $('#send').hidden = isBusy;
    $('#stop').hidden = !isBusy;
    setState(isBusy ? 'generating' : 'ready');
}

function send(text) {
    if (!text.trim() || running) return;
    ensureConversation(text.trim());
    current.messages.push({ role: 'user', content: text.trim() });
    $('#prompt').value = '';
    fitPrompt();
    generate();
}

function regenerate() {
    if (running) return;
    current.messages.pop();
    generate();
}

const goOn = () => !running && generate(current.messages.at(-1));

/** Answers the last message; with `begun` that answer goes on instead. */
async function generate(begun) {
    const conversation = current;
    const message = begun ?? { role: 'assistant', content: '' };
    if (!begun) conversation.messages.push(message);
    delete message.note;
    delete message.problem;
    running = new AbortController();
    const mine = running;
    setBusy(true);
    showAll();
    const bubble = $('.message', log.lastElementChild);
    bubble.classList.add('busy');
    const before = conversation.messages.slice(0, -1).map(
        ({ role, content }) => ({ role, content }));
    if (conversation.system) before.unshift({ role: 'system', content: conversation.system });
    try {
        await receive(message, bubble, {
            key: settings.key, model: $('#model').value || undefined, messages: before,
            begun: begun && message.content, temperature: settings.temperature,
            top_p: settings.topP, max_tokens: settings.maxTokens, signal: mine.signal });
    } catch (error) {
        if (error.name === 'AbortError') message.note = 'stopped';
        else message.problem = error.message;
        if (error.code === 'invalid_api_key') $('#settings').showModal();
    }
    if (running === mine) running = null;
    if (!running) setBusy(false);
    save();
    if (conversation === current) {
        const wasAtEnd = isAtEnd(), top = log.scrollTop;
        showAll();
        if (!wasAtEnd) log.scrollTop = top;
    }
}

async function receive(message, bubble, request) {
    const begin = performance.now();
    let first = 0, count = 0, last = begin, drawn = 0;
    const speed = make('span', { className: 'speed' });
    $('.tools', bubble.parentElement)?.append(speed);
    const draw = () => {
        drawn = 0;
        const wasAtEnd = isAtEnd();
        showMarkdown(bubble, message.content);
        speed.textContent = speedOf(message.stats);
        if (wasAtEnd) log.scrollTop = log.scrollHeight;
    };
    try {
        for await (const piece of answer(request)) {
            if (piece.finish === 'length') message.note = 'cut at the longest answer';
            if (piece.text) {
                last = performance.now();
                first ||= last;
                count++;
                message.content += piece.text;
            }
            message.stats = { tokens: piece.usage?.completion_tokens ?? count,
                              seconds: (last - first) / 1000, first: (first - begin) / 1000 };
            drawn ||= requestAnimationFrame(draw);
        }
    } finally {
        cancelAnimationFrame(drawn);
    }
}

// ---- Settings -----------------------------------------------------------------------------------

function showSettings() {
    $('#system').value = current?.system ?? settings.system;
    $('#temperature').value = settings.temperature;
    $('#top-p').value = settings.topP;
    $('#max-tokens').value = settings.maxTokens;
    $('#key').value = settings.key;
    $('#temperature-value').textContent = Number(settings.temperature).toFixed(1);
    $('#top-p-value').textContent = Number(settings.topP).toFixed(2);
    $('#max-tokens-value').textContent = `${settings.maxTokens} tokens`;
}

function readSettings() {
    settings.system = $('#system').value.trim();
    if (current) current.system = settings.system;
    settings.temperature = Number($('#temperature').value);
    settings.topP = Number($('#top-p').value);
    settings.maxTokens = Number($('#max-tokens').value);
    settings.key = $('#key').value.trim();
    save();
}

async function showModels() {
    try {
        const names = await listModels(settings.key);
        $('#model').replaceChildren(...names.map(name => make('option', { textContent: name })));
        if (names.includes(settings.model)) $('#model').value = settings.model;
        if (!running) setState('ready');
    } catch (error) {
        setState('failed');
        if (error.code === 'invalid_api_key') $('#settings').showModal();
    }
}

function closeDrawer() {
    $('#drawer').classList.remove('open');
    $('#scrim').hidden = true;
}

function fitPrompt() {
    $('#prompt').style.height = 'auto';
    $('#prompt').style.height = `${$('#prompt').scrollHeight + 2}px`;
}

// ---- Start --------------------------------------------------------------------------------------

$('#composer').onsubmit = event => {
    event.preventDefault();
    send($('#prompt').value);
};
$('#prompt').oninput = fitPrompt;
$('#prompt').onkeydown = event => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    $('#composer').requestSubmit();
};
$('#stop').onclick = () => running?.abort();
$('#new').onclick = () => {
    closeDrawer();
    startConversation();
};
$('#open-drawer').onclick = () => {
    $('#drawer').classList.add('open');
    $('#scrim').hidden = false;
};
$('#close-drawer').onclick = $('#scrim').onclick = closeDrawer;
$('#open-settings').onclick = () => {
    showSettings();
    $('#settings').showModal();
};
for (const id of ['temperature', 'top-p', 'max-tokens'])
    $(`#${id}`).oninput = () => {
        readSettings();
        showSettings();
    };
$('#system').oninput = $('#key').oninput = readSettings;
$('#settings').onclose = () => {
    readSettings();
    showModels();
};
$('#model').onchange = () => {
    settings.model = $('#model').value;
    save();
};
$('#forget').onclick = () => {
    running?.abort();
    conversations = [];
    current = null;
    save();
    $('#settings').close();
    showAll();
};
document.onkeydown = event => {
    if (event.key === 'Escape') running?.abort();
};
showAll();
showModels();
