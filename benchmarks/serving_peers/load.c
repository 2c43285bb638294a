// A load generator for HTTP/1.1 (h1) and gRPC (h2): closed loop, open loop at a constant rate, or every request once.
//
//   load h1|h2 PORT CONNECTIONS SECONDS WARM_UP RATE REQUESTS [ANSWERS]
//
// RATE 0 is a closed loop. With a rate, a request's time runs from when it was due, not from when a connection was free for
// it, so that a server that stalls cannot hide what it kept waiting. With ANSWERS every request is sent once and the answers
// are written there, in the order of the requests. A gRPC answer counts only with grpc-status 0, which tools that look at
// HTTP alone do not see. Connection c of C sends requests c, c + C, c + 2C and so on, so that with as many tokens as
// connections each connection keeps its own, as clients do. The last line of the output is one JSON object.
//
// REQUESTS and ANSWERS are records of two and one length-prefixed parts (32 bits, little-endian): head and body, and body.
// The head is what goes before the body on the wire (h1), or lines of "name: value" (h2).

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MOST_HEADERS 16
#define DRAIN_NS 2000000000LL  // how long the last answers are waited for
#define UNDER_WAY (-1)

typedef struct { char *head; uint32_t head_size; char *body; uint32_t body_size; nghttp2_nv lines[MOST_HEADERS]; int count; } Request;
typedef struct { char *bytes; size_t size, room; } Buffer;
typedef struct {
    int fd, index, busy, waits_to_write;
    int64_t since;
    long next, sending;          // the request to send next, and the one under way
    size_t sent;                 // of the body (h2) or of head and body (h1)
    Buffer in, out;              // the answer, and what the socket did not take yet (h2)
    size_t out_at;
    int status, grpc_status;     // UNDER_WAY until told
    char said[300];              // with a gRPC error
    nghttp2_session *session;
} Connection;

static int http2, port, checking, epoll;
static long request_count, connection_count, done, errors, refused;
static Request *requests;
static Buffer *answers;
static int64_t measured_from, ends;
static uint32_t *latencies;
static long latency_count, latency_room;
static Connection **idle;
static long idle_count;
static nghttp2_session_callbacks *callbacks;
static char first_refusal[600];

static void fail(const char *what) { fprintf(stderr, "load: %s: %s\n", what, strerror(errno)); exit(1); }
static void *ours(void *memory) { if (!memory) fail("no memory"); return memory; }

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void append(Buffer *buffer, const void *bytes, size_t size) {
    if (buffer->size + size > buffer->room) buffer->bytes = ours(realloc(buffer->bytes, buffer->room = 2 * (buffer->size + size)));
    memcpy(buffer->bytes + buffer->size, bytes, size);
    buffer->size += size;
}

// --- requests -------------------------------------------------------------------------------------------------------------

static char *part(FILE *file, uint32_t *size) {
    if (fread(size, 4, 1, file) != 1) return NULL;
    char *bytes = ours(malloc(*size + 1));
    if (*size && fread(bytes, *size, 1, file) != 1) fail("a request is cut off");
    bytes[*size] = 0;
    return bytes;
}

static void split_lines(Request *request) {
    for (char *rest = request->head, *line; (line = strsep(&rest, "\n"));) {
        char *value = strstr(line, ": ");
        if (!value) continue;
        if (request->count == MOST_HEADERS) fail("too many headers");
        nghttp2_nv *nv = &request->lines[request->count++];
        *nv = (nghttp2_nv){(uint8_t *)line, (uint8_t *)value + 2, value - line, strlen(value + 2), NGHTTP2_NV_FLAG_NONE};
    }
}

static void read_requests(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) fail(path);
    Request request = {0};
    while ((request.head = part(file, &request.head_size)) && (request.body = part(file, &request.body_size))) {
        request.count = 0;
        if (http2) split_lines(&request);
        requests = ours(realloc(requests, (request_count + 1) * sizeof request));
        requests[request_count++] = request;
    }
    fclose(file);
    if (!request_count) fail("there are no requests");
}

// --- what is counted ------------------------------------------------------------------------------------------------------

static void reopen(Connection *c);
static void send_next(Connection *c, int64_t since);

static void finish(Connection *c, int ok) {
    int64_t at = now();
    c->busy = 0;
    if (!ok) {
        const char *said = http2 ? c->said : c->in.bytes;
        if (!refused++)
            snprintf(first_refusal, sizeof first_refusal, "status %d, grpc-status %d: %s", c->status, c->grpc_status, said);
    }
    if (checking) {
        done++;
        Buffer kept = {0};
        append(&kept, c->in.bytes ? c->in.bytes : "", c->in.size);
        answers[c->sending] = kept;
    } else if (ok && c->since >= measured_from && c->since < ends) {
        if (latency_count == latency_room) latencies = ours(realloc(latencies, (latency_room = 2 * latency_room + 4096) * 4));
        latencies[latency_count++] = (at - c->since) / 1000;
        if (at < ends) done++;
    }
    c->in.size = 0;
    idle[idle_count++] = c;
}

static void lost(Connection *c) {
    if (c->busy) {
        errors++;
        if (checking) done++;
        c->busy = 0;
        idle[idle_count++] = c;
    }
    reopen(c);
}

// --- HTTP/1.1 -------------------------------------------------------------------------------------------------------------

static void write_http1(Connection *c) {
    Request *r = &requests[c->sending];
    while (c->sent < r->head_size + r->body_size) {
        int in_head = c->sent < r->head_size;
        char *from = in_head ? r->head + c->sent : r->body + (c->sent - r->head_size);
        size_t left = in_head ? r->head_size - c->sent : r->head_size + r->body_size - c->sent;
        ssize_t n = send(c->fd, from, left, MSG_NOSIGNAL | (in_head && r->body_size ? MSG_MORE : 0));
        if (n < 0) {
            if (errno != EAGAIN) lost(c); else c->waits_to_write = 1;
            return;
        }
        c->sent += n;
    }
}

// Joins the chunks that begin at `from` in place; their length, or -1 where the last one is not there yet.
static ssize_t joined(Connection *c, size_t from) {
    char *start = c->in.bytes + from, *end = c->in.bytes + c->in.size, *at = start;
    for (long size = -1; size;) {  // once to see whether all is there
        char *line = strstr(at, "\r\n");
        if (!line) return -1;
        size = strtol(at, NULL, 16), at = line + 2 + size + 2;
        if (at > end) return -1;
    }
    size_t length = 0;
    for (at = start;;) {
        long size = strtol(at, &at, 16);
        if (!size) return length;
        memmove(start + length, at + 2, size);
        length += size, at += 2 + size + 2;
    }
}

// Whether a whole answer is there; its body is then moved to the front.
static int parsed_http1(Connection *c) {
    append(&c->in, "", 1);  // so that it ends as strings do
    c->in.size--;
    char *end = strstr(c->in.bytes, "\r\n\r\n");
    if (!end) return 0;
    size_t start = end + 4 - c->in.bytes;
    ssize_t length;
    end[2] = 0;
    char *field = strcasestr(c->in.bytes, "\r\ncontent-length:"), *chunked = strcasestr(c->in.bytes, "\r\ntransfer-encoding:");
    end[2] = '\r';
    if (field) length = c->in.size < start + strtoul(field + 17, NULL, 10) ? -1 : atol(field + 17);
    else if (chunked) length = joined(c, start);
    else { fprintf(stderr, "load: an answer without a length\n"); exit(1); }
    if (length < 0) return 0;
    c->status = atoi(c->in.bytes + 9);
    memmove(c->in.bytes, c->in.bytes + start, length);
    c->in.bytes[c->in.size = length] = 0;
    return 1;
}

// --- HTTP/2 ---------------------------------------------------------------------------------------------------------------

static void flush_http2(Connection *c) {
    for (;;) {
        while (c->out_at < c->out.size) {
            ssize_t n = send(c->fd, c->out.bytes + c->out_at, c->out.size - c->out_at, MSG_NOSIGNAL);
            if (n < 0) {
                if (errno != EAGAIN) lost(c); else c->waits_to_write = 1;
                return;
            }
            c->out_at += n;
        }
        c->out.size = c->out_at = 0;
        const uint8_t *bytes;
        ssize_t n;
        while (c->out.size < 65536 && (n = nghttp2_session_mem_send(c->session, &bytes)) > 0) append(&c->out, bytes, n);
        if (!c->out.size) return;
    }
}

static ssize_t read_body(nghttp2_session *s, int32_t id, uint8_t *to, size_t room, uint32_t *flags, nghttp2_data_source *source,
                         void *user) {
    Connection *c = source->ptr;
    Request *r = &requests[c->sending];
    size_t n = r->body_size - c->sent < room ? r->body_size - c->sent : room;
    memcpy(to, r->body + c->sent, n);
    c->sent += n;
    if (c->sent == r->body_size) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return n;
}

static int on_header(nghttp2_session *s, const nghttp2_frame *frame, const uint8_t *name, size_t name_size, const uint8_t *value,
                     size_t value_size, uint8_t flags, void *user) {
    Connection *c = user;
    if (name_size == 7 && !memcmp(name, ":status", 7)) c->status = atoi((const char *)value);
    if (name_size == 11 && !memcmp(name, "grpc-status", 11)) c->grpc_status = atoi((const char *)value);
    if (name_size == 12 && !memcmp(name, "grpc-message", 12)) snprintf(c->said, sizeof c->said, "%s", (const char *)value);
    return 0;
}

static int on_data(nghttp2_session *s, uint8_t flags, int32_t id, const uint8_t *bytes, size_t size, void *user) {
    append(&((Connection *)user)->in, bytes, size);
    return 0;
}

static int on_close(nghttp2_session *s, int32_t id, uint32_t error, void *user) {
    Connection *c = user;
    finish(c, error == NGHTTP2_NO_ERROR && c->status == 200 && c->grpc_status == 0 && c->in.size >= 5);
    return 0;
}

// --- connections ----------------------------------------------------------------------------------------------------------

static void start_http2(Connection *c) {
    nghttp2_settings_entry entries[] = {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0}, {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1 << 20}};
    if (nghttp2_session_client_new(&c->session, callbacks, c)) fail("nghttp2");
    nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, entries, 2);
    nghttp2_session_set_local_window_size(c->session, NGHTTP2_FLAG_NONE, 0, 1 << 24);
}

static void reopen(Connection *c) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int yes = 1;
    if (c->fd >= 0) close(c->fd);
    if (c->session) nghttp2_session_del(c->session);
    c->session = NULL, c->in.size = c->out.size = c->out_at = 0, c->waits_to_write = 0;
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(c->fd, (struct sockaddr *)&address, sizeof address)) fail("connect");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = c};
    epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event);
    if (http2) start_http2(c);
}

static void send_next(Connection *c, int64_t since) {
    c->busy = 1, c->since = since, c->sent = 0, c->status = c->grpc_status = UNDER_WAY;
    c->sending = c->next;
    c->next = c->next + connection_count;
    if (!checking) c->next %= request_count;
    if (!http2) { write_http1(c); return; }
    Request *r = &requests[c->sending];
    nghttp2_data_provider body = {.source.ptr = c, .read_callback = read_body};
    if (nghttp2_submit_request(c->session, NULL, r->lines, r->count, &body, NULL) < 0) { lost(c); return; }
    flush_http2(c);
}

static void receive(Connection *c) {
    static char bytes[1 << 18];
    for (;;) {
        ssize_t n = recv(c->fd, bytes, sizeof bytes, 0);
        if (n < 0 && errno == EAGAIN) return;
        if (n <= 0) { lost(c); return; }
        if (!http2) {
            append(&c->in, bytes, n);
            if (c->busy && parsed_http1(c)) finish(c, c->status == 200);
        } else if (nghttp2_session_mem_recv(c->session, (uint8_t *)bytes, n) < 0) {
            lost(c);
            return;
        }
        if (n < (ssize_t)sizeof bytes) break;
    }
    if (http2) flush_http2(c);
}

// --- the loop -------------------------------------------------------------------------------------------------------------

static void wait_for_events(int milliseconds) {
    struct epoll_event events[256];
    int n = epoll_wait(epoll, events, 256, milliseconds);
    for (int i = 0; i < n; i++) {
        Connection *c = events[i].data.ptr;
        if (events[i].events & EPOLLOUT && c->waits_to_write) {
            c->waits_to_write = 0;
            if (http2) flush_http2(c); else if (c->busy) write_http1(c);
        }
        if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) receive(c);
    }
}

static void send_once(void) {
    while (done < request_count) {
        for (long i = idle_count; i-- > 0;)
            if (idle[i]->next < request_count) {
                Connection *c = idle[i];
                idle[i] = idle[--idle_count];
                send_next(c, now());
            }
        wait_for_events(100);
        if (now() > ends) { errors += request_count - done; return; }
    }
}

static void send_closed(void) {
    while (now() < ends) {
        while (idle_count) send_next(idle[--idle_count], now());
        wait_for_events(50);
    }
}

static long send_at(double rate, int64_t began) {
    long due = 0, measured = 0;
    for (int64_t at; (at = now()) < ends + DRAIN_NS;) {
        int64_t when;
        while (idle_count && (when = began + (int64_t)(due * 1e9 / rate)) <= at && when < ends) {
            measured += when >= measured_from;
            Connection *c = idle[0];  // the one that rested longest
            memmove(idle, idle + 1, --idle_count * sizeof *idle);
            send_next(c, when);
            due++;
        }
        if (at >= ends && idle_count == connection_count) break;
        wait_for_events(0);  // a core of its own: a sleep would blur the rate
    }
    for (; began + (int64_t)(due * 1e9 / rate) < ends; due++) measured++;  // never sent
    return measured;
}

static int by_size(const void *a, const void *b) { return (*(uint32_t *)a > *(uint32_t *)b) - (*(uint32_t *)a < *(uint32_t *)b); }
static double percentile(double p) { return latency_count ? latencies[(long)(p * (latency_count - 1))] / 1e3 : 0; }

static void write_answers(const char *path) {
    FILE *file = fopen(path, "wb");
    if (!file) fail(path);
    for (long i = 0; i < request_count; i++) {
        uint32_t size = answers[i].size;
        fwrite(&size, 4, 1, file);
        fwrite(answers[i].bytes ? answers[i].bytes : "", 1, size, file);
    }
    fclose(file);
}

int main(int count, char **given) {
    if (count < 8) { fprintf(stderr, "load h1|h2 PORT CONNECTIONS SECONDS WARM_UP RATE REQUESTS [ANSWERS]\n"); return 2; }
    http2 = !strcmp(given[1], "h2"), port = atoi(given[2]), connection_count = atol(given[3]), checking = count > 8;
    double seconds = atof(given[4]), warm_up = atof(given[5]), rate = atof(given[6]);
    read_requests(given[7]);
    answers = ours(calloc(request_count, sizeof *answers));
    idle = ours(calloc(connection_count, sizeof *idle));
    epoll = epoll_create1(0);
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    Connection *connections = ours(calloc(connection_count, sizeof *connections));
    for (long i = 0; i < connection_count; i++) {
        connections[i] = (Connection){.fd = -1, .index = i, .next = checking ? i : i % request_count};
        reopen(&connections[i]);
        idle[idle_count++] = &connections[i];
    }
    int64_t began = now();
    measured_from = began + (int64_t)(warm_up * 1e9), ends = measured_from + (int64_t)(seconds * 1e9);
    if (checking) send_once();
    else if (rate > 0) {
        long lacking = send_at(rate, began) - latency_count - refused;
        if (lacking > 0) errors += lacking;
    }
    else send_closed();
    if (checking) write_answers(given[8]);
    qsort(latencies, latency_count, 4, by_size);
    if (refused) fprintf(stderr, "load: first refusal: %s\n", first_refusal);
    printf("{\"requests\": %ld, \"seconds\": %.4f, \"p50_ms\": %.3f, \"p90_ms\": %.3f, \"p99_ms\": %.3f, \"max_ms\": %.3f, "
           "\"errors\": %ld, \"non2xx\": %ld}\n",
           done, seconds, percentile(0.5), percentile(0.9), percentile(0.99), percentile(1), errors, refused);
    return 0;
}
