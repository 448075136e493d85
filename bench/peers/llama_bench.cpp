// SPDX-License-Identifier: MIT
// llama.cpp as a peer of bench/compare: ggml's operators and llama.cpp's prompt and decode, behind
// the same requests that `rlx bench --pipe` takes. Built by get_llama.sh.
// usage: llama_bench [--backend CPU] --threads N
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <climits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <strings.h>
#include <unistd.h>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml.h"
#include "llama.h"

namespace {

constexpr double MIN_SAMPLE = 2e-3; // seconds: shorter runs are put together
constexpr int MAX_SAMPLES = 10;
constexpr int MAX_NODES = 16384;

struct sample {
    double wall, cpu; // seconds of one run
};

struct machine {
    ggml_backend_dev_t device;
    ggml_backend_t backend;
    ggml_backend_buffer_type_t repack; // how llama.cpp lays out weights it loads, or NULL
    int threads;
    bool is_cpu;
};

double wall_now()
{
    return double(ggml_time_us()) * 1e-6;
}

double cpu_now()
{
    timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return double(t.tv_sec) + double(t.tv_nsec) * 1e-9;
}

float random_float()
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return float(int32_t(state >> 32)) * (1.0f / 2147483648.0f);
}

// ---- A request's words and shapes ---------------------------------------------------------------

std::vector<std::string> split(const std::string &text, const char *separators)
{
    std::vector<std::string> parts;
    size_t at = 0;
    while ((at = text.find_first_not_of(separators, at)) != std::string::npos) {
        size_t end = text.find_first_of(separators, at);
        parts.push_back(text.substr(at, end - at));
        at = end;
        if (end == std::string::npos)
            break;
    }
    return parts;
}

std::vector<int64_t> parse_shape(const std::string &text)
{
    std::vector<int64_t> shape;
    for (const std::string &part : split(text, "x"))
        shape.push_back(std::atoll(part.c_str()));
    return shape;
}

ggml_type parse_type(const std::string &name)
{
    for (int i = 0; i < GGML_TYPE_COUNT; i++) {
        const char *other = ggml_type_name(ggml_type(i));
        if (other && !strcasecmp(other, name.c_str()))
            return ggml_type(i);
    }
    throw std::runtime_error("ggml has no type " + name);
}

// ---- Something to measure -----------------------------------------------------------------------

struct work {
    virtual ~work() = default;
    virtual void warm() {}
    virtual sample take() = 0;
};

// Fills a tensor with random numbers in its type. A row is made once and then repeated.
void fill(ggml_tensor *t)
{
    if (t->type == GGML_TYPE_I32) { // positions
        std::vector<int32_t> v(size_t(ggml_nelements(t)));
        for (size_t i = 0; i < v.size(); i++)
            v[i] = int32_t(i);
        ggml_backend_tensor_set(t, v.data(), 0, ggml_nbytes(t));
        return;
    }
    const int64_t columns = t->ne[0], rows = ggml_nrows(t), made = std::min<int64_t>(rows, 64);
    const size_t row_bytes = ggml_row_size(t->type, columns);
    std::vector<float> numbers(size_t(columns * made));
    for (float &x : numbers)
        x = random_float();
    std::vector<char> data(row_bytes * size_t(rows));
    if (t->type == GGML_TYPE_F32)
        memcpy(data.data(), numbers.data(), row_bytes * size_t(made));
    else
        ggml_quantize_chunk(t->type, numbers.data(), data.data(), 0, made, columns, nullptr);
    for (int64_t r = made; r < rows; r++)
        memcpy(&data[row_bytes * size_t(r)], &data[row_bytes * size_t(r % made)], row_bytes);
    ggml_backend_tensor_set(t, data.data(), 0, data.size());
}

class op_work : public work {
public:
    op_work(const machine &m, const std::string &text, int copies) : m(m), copies(copies)
    {
        ggml_init_params p = {ggml_tensor_overhead() * 256 +
                                  2 * ggml_graph_overhead_custom(MAX_NODES, false),
                              nullptr, true};
        ggml_init_params w = {ggml_tensor_overhead() * 64, nullptr, true};
        values.reset(ggml_init(p));
        weights.reset(ggml_init(w));
        build(split(text, ":"));
        for (ggml_tensor *t : results)
            if (!ggml_backend_supports_op(m.backend, t))
                throw std::runtime_error("ggml does not support the operator");
        allocate();
        make_graph();
    }

    ~op_work() override
    {
        ggml_backend_buffer_free(weight_buffer);
        ggml_backend_buffer_free(value_buffer);
    }

    void warm() override { compute(once); }

    sample take() override
    {
        double wall = wall_now(), cpu = cpu_now();
        compute(many);
        double runs = double(repeats) * copies;
        return {(wall_now() - wall) / runs, (cpu_now() - cpu) / runs};
    }

private:
    void build(const std::vector<std::string> &parts)
    {
        if (parts.size() < 3)
            throw std::runtime_error("expected OP:TYPE:SHAPE");
        const std::string &op = parts[0];
        std::vector<int64_t> s = parse_shape(parts[2]);
        for (int i = 0; i < copies; i++) {
            if ((op == "dequant_matmul" || op == "matmul") && s.size() == 3)
                results.push_back(matmul(parse_type(parts[1]), s));
            else if (op == "softmax" && s.size() == 2)
                results.push_back(ggml_soft_max(values.get(), rows(s)));
            else if (op == "rms_norm" && s.size() == 2) // without the scale that rlx applies too
                results.push_back(ggml_rms_norm(values.get(), rows(s), 1e-5f));
            else if (op == "rope" && s.size() == 4)
                results.push_back(rope(s));
            else
                throw std::runtime_error("no operator of ggml for " + op);
        }
    }

    // x [m, k] times a weight [n, k]; ggml writes the fastest dimension first.
    ggml_tensor *matmul(ggml_type type, const std::vector<int64_t> &mnk)
    {
        ggml_tensor *w = ggml_new_tensor_2d(weights.get(), type, mnk[2], mnk[1]);
        return ggml_mul_mat(values.get(), w, rows({mnk[0], mnk[2]}));
    }

    // [batch, heads, tokens, size]; ggml holds a token's heads together.
    ggml_tensor *rope(const std::vector<int64_t> &s)
    {
        ggml_tensor *x = ggml_new_tensor_3d(values.get(), GGML_TYPE_F32, s[3], s[1], s[0] * s[2]);
        ggml_tensor *places = ggml_new_tensor_1d(values.get(), GGML_TYPE_I32, s[0] * s[2]);
        return ggml_rope_ext(values.get(), x, places, nullptr, int(s[3]), GGML_ROPE_TYPE_NORMAL,
                             4096, 10000.0f, 1.0f, 0.0f, 1.0f, 32.0f, 1.0f);
    }

    ggml_tensor *rows(const std::vector<int64_t> &s)
    {
        return ggml_new_tensor_2d(values.get(), GGML_TYPE_F32, s[1], s[0]);
    }

    // Weights go where llama.cpp would put them: repacked if the type has such a layout.
    void allocate()
    {
        ggml_tensor *first = ggml_get_first_tensor(weights.get());
        if (first) {
            bool packed = m.repack && ggml_is_quantized(first->type);
            ggml_backend_buffer_type_t plain = ggml_backend_get_default_buffer_type(m.backend);
            weight_buffer = ggml_backend_alloc_ctx_tensors_from_buft(weights.get(),
                                                                     packed ? m.repack : plain);
            if (packed && weight_buffer && !first->extra)
                weight_buffer = move_to(plain);
            if (!weight_buffer)
                throw std::runtime_error("no memory for the weights");
            ggml_backend_buffer_set_usage(weight_buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
            for (ggml_tensor *t = first; t; t = ggml_get_next_tensor(weights.get(), t))
                fill(t);
        }
        value_buffer = ggml_backend_alloc_ctx_tensors(values.get(), m.backend);
        if (!value_buffer)
            throw std::runtime_error("no memory for the tensors");
        for (ggml_tensor *t = ggml_get_first_tensor(values.get()); t;
             t = ggml_get_next_tensor(values.get(), t))
            if (t->op == GGML_OP_NONE && !t->view_src)
                fill(t);
    }

    // The repack buffer has no layout for this type: back to the plain one.
    ggml_backend_buffer_t move_to(ggml_backend_buffer_type_t plain)
    {
        ggml_backend_buffer_free(weight_buffer);
        weight_buffer = nullptr;
        for (ggml_tensor *t = ggml_get_first_tensor(weights.get()); t;
             t = ggml_get_next_tensor(weights.get(), t)) {
            t->buffer = nullptr;
            t->data = nullptr;
        }
        return ggml_backend_alloc_ctx_tensors_from_buft(weights.get(), plain);
    }

    void make_graph()
    {
        once = ggml_new_graph_custom(values.get(), MAX_NODES, false);
        for (ggml_tensor *t : results)
            ggml_build_forward_expand(once, t);
        double best = 1e30;
        for (int i = 0; i < 3; i++) {
            double begin = wall_now();
            compute(once);
            best = std::min(best, wall_now() - begin);
        }
        int nodes = ggml_graph_n_nodes(once), room = MAX_NODES / nodes - 1;
        repeats = std::max(1, std::min(room, int(std::ceil(MIN_SAMPLE / std::max(best, 1e-7)))));
        many = ggml_new_graph_custom(values.get(), MAX_NODES, false);
        for (ggml_tensor *t : results)
            ggml_build_forward_expand(many, t);
        for (int r = 1; r < repeats; r++)
            for (int i = 0; i < nodes; i++)
                ggml_graph_add_node(many, ggml_graph_node(once, i));
    }

    void compute(ggml_cgraph *g)
    {
        if (ggml_backend_graph_compute(m.backend, g) != GGML_STATUS_SUCCESS)
            throw std::runtime_error("ggml failed");
        ggml_backend_synchronize(m.backend);
    }

    struct free_context {
        void operator()(ggml_context *c) const { ggml_free(c); }
    };
    const machine &m;
    int copies, repeats = 1;
    std::unique_ptr<ggml_context, free_context> values, weights;
    std::vector<ggml_tensor *> results;
    ggml_backend_buffer_t weight_buffer = nullptr, value_buffer = nullptr;
    ggml_cgraph *once = nullptr, *many = nullptr;
};

struct free_model {
    void operator()(llama_model *m) const { llama_model_free(m); }
};
struct free_context {
    void operator()(llama_context *c) const { llama_free(c); }
};
using model_ptr = std::unique_ptr<llama_model, free_model>;
using context_ptr = std::unique_ptr<llama_context, free_context>;

model_ptr load_model(const machine &m, const std::string &path)
{
    ggml_backend_dev_t devices[] = {m.is_cpu ? nullptr : m.device, nullptr};
    llama_model_params mp = llama_model_default_params();
    mp.devices = devices;
    mp.n_gpu_layers = m.is_cpu ? 0 : 999;
    model_ptr model(llama_model_load_from_file(path.c_str(), mp));
    if (!model)
        throw std::runtime_error("llama.cpp cannot load " + path);
    return model;
}

class model_work : public work {
public:
    model_work(const machine &m, const std::string &path, bool decode, int tokens)
        : decode(decode), tokens(tokens), model(load_model(m, path))
    {
        llama_context_params cp = llama_context_default_params();
        cp.n_ctx = uint32_t((tokens + 64 + 255) / 256 * 256);
        cp.n_batch = cp.n_ubatch = uint32_t(std::max(tokens, 512));
        cp.n_threads = cp.n_threads_batch = m.threads;
        cp.no_perf = true;
        context.reset(llama_init_from_model(model.get(), cp));
        if (!context)
            throw std::runtime_error("llama.cpp cannot make a context");
        take();
    }

    sample take() override
    {
        std::vector<llama_token> prompt(size_t(decode ? 1 : tokens));
        for (size_t i = 0; i < prompt.size(); i++)
            prompt[i] = llama_token(i * 37 % 997 + 3);
        llama_memory_clear(llama_get_memory(context.get()), true);
        if (decode)
            step(prompt.data(), 1);
        double wall = wall_now(), cpu = cpu_now(), runs = decode ? tokens : 1;
        if (decode)
            for (llama_token t = 0; t < tokens; t++)
                step(&t, 1);
        else
            step(prompt.data(), tokens);
        return {(wall_now() - wall) / runs, (cpu_now() - cpu) / runs};
    }

private:
    void step(llama_token *t, int n)
    {
        if (llama_decode(context.get(), llama_batch_get_one(t, n)))
            throw std::runtime_error("llama_decode failed");
        llama_synchronize(context.get());
    }

    bool decode;
    int tokens;
    model_ptr model;
    context_ptr context;
};

// Steps of several sequences, a token of each in one batch, after a prompt of 128 tokens each. The
// time is that of a step.
class many_work : public work {
public:
    many_work(const machine &m, const std::string &path, int sequences, int tokens)
        : sequences(sequences), tokens(tokens), model(load_model(m, path))
    {
        const int each = (PROMPT + tokens + 255) / 256 * 256;
        llama_context_params cp = llama_context_default_params();
        cp.n_ctx = uint32_t(each * sequences);
        cp.n_batch = cp.n_ubatch = uint32_t(std::max(sequences, 512));
        cp.n_seq_max = uint32_t(sequences);
        cp.n_threads = cp.n_threads_batch = m.threads;
        cp.no_perf = true;
        context.reset(llama_init_from_model(model.get(), cp));
        if (!context)
            throw std::runtime_error("llama.cpp cannot make a context");
        batch = llama_batch_init(std::max(PROMPT, sequences), 0, 1);
        take();
    }

    ~many_work() override { llama_batch_free(batch); }

    sample take() override
    {
        llama_memory_clear(llama_get_memory(context.get()), true);
        for (int s = 0; s < sequences; s++) {
            for (int i = 0; i < PROMPT; i++)
                add(i * 37 % 997 + 3, i, s, i == PROMPT - 1);
            run();
        }
        double wall = wall_now(), cpu = cpu_now();
        for (int t = 0; t < tokens; t++) {
            for (int s = 0; s < sequences; s++)
                add(t, PROMPT + t, s, true);
            run();
        }
        return {(wall_now() - wall) / tokens, (cpu_now() - cpu) / tokens};
    }

private:
    static constexpr int PROMPT = 128;

    void add(int token, int position, int sequence, bool output)
    {
        const int i = batch.n_tokens++;
        batch.token[i] = llama_token(token);
        batch.pos[i] = llama_pos(position);
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = llama_seq_id(sequence);
        batch.logits[i] = output;
    }

    void run()
    {
        if (llama_decode(context.get(), batch))
            throw std::runtime_error("llama_decode failed");
        llama_synchronize(context.get());
        batch.n_tokens = 0;
    }

    int sequences, tokens;
    model_ptr model;
    context_ptr context;
    llama_batch batch = {};
};

// ---- Requests -----------------------------------------------------------------------------------

std::unique_ptr<work> open_work(const machine &m, const std::vector<std::string> &words)
{
    if (words.size() > 3 && (words[1] == "prompt" || words[1] == "decode"))
        return std::make_unique<model_work>(m, words[3], words[1] == "decode",
                                            std::atoi(words[2].c_str()));
    int sequences = 0, steps = 0, copies = 1;
    if (words.size() > 3 && words[1] == "sequences" &&
        sscanf(words[2].c_str(), "%dx%d", &sequences, &steps) == 2 && sequences > 0 && steps > 0)
        return std::make_unique<many_work>(m, words[3], sequences, steps);
    for (const std::string &word : words)
        if (word.rfind("copies=", 0) == 0)
            copies = std::max(1, std::min(16, std::atoi(word.c_str() + 7)));
    return std::make_unique<op_work>(m, words.at(1), copies);
}

void print_samples(work &w, double seconds)
{
    std::vector<sample> samples;
    w.warm();
    double begin = wall_now();
    while (samples.empty() || (int(samples.size()) < MAX_SAMPLES && wall_now() - begin < seconds))
        samples.push_back(w.take());
    printf("{\"samples\": [");
    for (size_t i = 0; i < samples.size(); i++)
        printf("%s[%.9g, %.9g]", i ? ", " : "", samples[i].wall, samples[i].cpu);
    puts("]}");
}

void serve(const machine &m)
{
    std::unique_ptr<work> open;
    char line[4096];
    while (fgets(line, sizeof line, stdin)) {
        std::vector<std::string> words = split(line, " \n");
        try {
            if (!words.empty() && words[0] == "time" && words.size() == 2 && open) {
                print_samples(*open, std::atof(words[1].c_str()));
            } else {
                open.reset();
                if (words.size() > 1 && words[0] == "open")
                    open = open_work(m, words);
                puts("{}");
            }
        } catch (const std::exception &e) {
            printf("{\"error\": \"%s\"}\n", e.what());
        }
        fflush(stdout);
    }
}

void log_errors(ggml_log_level level, const char *text, void *)
{
    if (level == GGML_LOG_LEVEL_ERROR)
        fputs(text, stderr);
}

std::string program_folder()
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path);
    std::string text(path, n > 0 ? size_t(n) : 0);
    size_t slash = text.rfind('/');
    return slash == std::string::npos ? "." : text.substr(0, slash);
}

machine open_machine(const char *name, int threads)
{
    machine m = {ggml_backend_dev_by_name(name), nullptr, nullptr, threads, !strcmp(name, "CPU")};
    if (!m.device || !(m.backend = ggml_backend_dev_init(m.device, nullptr)))
        throw std::runtime_error(std::string("no device ") + name);
    ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(m.device);
    void *set = ggml_backend_reg_get_proc_address(reg, "ggml_backend_set_n_threads");
    if (set)
        reinterpret_cast<ggml_backend_set_n_threads_t>(set)(m.backend, threads);
    void *get = ggml_backend_reg_get_proc_address(reg, "ggml_backend_dev_get_extra_bufts");
    if (!get)
        return m;
    ggml_backend_buffer_type_t *list =
        reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(get)(m.device);
    for (; list && *list; list++)
        if (strstr(ggml_backend_buft_name(*list), "REPACK"))
            m.repack = *list;
    return m;
}

} // namespace

int main(int argc, char **argv)
{
    const char *backend = "CPU";
    int threads = 1;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--backend"))
            backend = argv[i + 1];
        else if (!strcmp(argv[i], "--threads"))
            threads = std::max(1, std::atoi(argv[i + 1]));
    }
    ggml_time_init();
    ggml_log_set(log_errors, nullptr);
    llama_log_set(log_errors, nullptr);
    ggml_backend_load_all_from_path(program_folder().c_str());
    try {
        machine m = open_machine(backend, threads);
        printf("{\"name\": \"llama.cpp\", \"version\": \"ggml %s %s on %s\"}\n", ggml_version(),
               ggml_commit(), ggml_backend_dev_description(m.device));
        fflush(stdout);
        serve(m);
        ggml_backend_free(m.backend);
    } catch (const std::exception &e) {
        fprintf(stderr, "llama_bench: %s\n", e.what());
        return 1;
    }
    return 0;
}
