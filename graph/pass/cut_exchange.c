/* Makes of a stage that clef__cut_stage() has cut out one that exchanges values with the other stage while it
 * runs, instead of before and after. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/collective.h"
#include "graph/pass/cut.h"
#include "graph/pass/pass.h"

/* An input that holds received values, one after the other. */
typedef struct slot {
    clef_value *input;
    int32_t last_use; /* the last place in the old order where its value is read */
} slot;

typedef struct exchange {
    clef_graph *g;
    int32_t peer;
    clef_value **old; /* the stage's values in their order */
    int32_t n_old;
    clef_value **order; /* the new order; room for all values, sends and copies */
    int32_t n_order;
    int32_t *sends; /* by place in the old order: the number of the first of the nodes that send that value,
                       in the graph's list; 0: none */
    int32_t *last_use;   /* by place in the old order: the last place that reads the value */
    int32_t sent_to;     /* what was computed before this place is sent */
    clef_value *pending; /* a value that is to be received before its first reader */
    slot *slots;
    int32_t n_slots;
} exchange;

static int crosses_in(const clef_cut *cut, const clef_value *v)
{
    const clef_value *whole = v->kind == CLEF_INPUT ? clef_graph_find(cut->graph, v->name) : NULL;
    return whole && whole->kind != CLEF_INPUT;
}

/* Where the value of each place is read last, views of it included. */
static void find_last_uses(exchange *x)
{
    for (int32_t i = 0; i < x->n_old; i++)
        for (int32_t k = 0; k < x->old[i]->n_in; k++)
            if (x->old[i]->in[k])
                x->last_use[clef__base(x->old[i]->in[k])->id] = i;
    for (int32_t i = 0; i < x->g->n_outputs; i++)
        x->last_use[clef__base(x->g->outputs[i].value)->id] = x->n_old;
}

/* Appends the node that sends v, and before it a copy where v is not dense. Returns the number of the first.
 */
static int32_t send(clef_graph *g, clef_value *v, int32_t peer)
{
    const int32_t first = g->n_values;
    clef__send(g, v, peer);
    return first;
}

/* The outputs that cross become nodes that send. */
static void make_sends(exchange *x)
{
    int32_t n = 0;
    for (int32_t i = 0; i < x->g->n_outputs; i++) {
        const clef_output_def *o = &x->g->outputs[i];
        if (strncmp(o->name, CLEF_CROSS, strlen(CLEF_CROSS)) == 0)
            x->sends[o->value->id] = send(x->g, o->value, x->peer);
        else
            x->g->outputs[n++] = *o;
    }
    x->g->n_outputs = n;
}

static void send_until(exchange *x, int32_t place)
{
    int is_last = 0;
    for (; x->sent_to < place; x->sent_to++)
        for (int32_t i = x->sends[x->sent_to]; i; i = is_last ? 0 : i + 1) {
            is_last = x->g->values[i]->op == CLEF_OP_send;
            x->order[x->n_order++] = x->g->values[i];
        }
}

/* An input for a value that is received at this place: one whose last value was read before the last send, so
 * that the other stage cannot have been ahead. NULL: the graph's error says why. */
static clef_value *slot_for(exchange *x, const clef_value *v, int32_t last_use, int32_t last_send)
{
    char name[32];
    for (int32_t i = 0; i < x->n_slots; i++) {
        slot *s = &x->slots[i];
        if (s->last_use < last_send && s->input->dtype == v->dtype &&
            clef__shape_equal(&s->input->shape, &v->shape)) {
            s->last_use = last_use;
            return s->input;
        }
    }
    snprintf(name, sizeof name, "received.%" PRId32, x->n_slots);
    clef_value *input = clef_input(x->g, name, v->dtype, v->shape);
    x->slots[x->n_slots++] = (slot){input, last_use};
    return input;
}

static void receive(exchange *x, int32_t last_send)
{
    clef_value *v = x->pending;
    x->pending = NULL;
    clef_value *input = v ? slot_for(x, v, x->last_use[v->id], last_send) : NULL;
    if (!input)
        return;
    v->kind = CLEF_COMPUTED;
    v->op = CLEF_OP_receive;
    v->in[0] = input;
    v->n_in = 1;
    memcpy(v->attr, &(clef__peer_opts){x->peer}, sizeof(clef__peer_opts));
    x->order[x->n_order++] = v;
}

static int reads(const clef_value *v, const clef_value *of)
{
    for (int32_t k = 0; k < v->n_in; k++)
        if (v->in[k] == of)
            return 1;
    return 0;
}

static void put_in_order(const clef_cut *cut, exchange *x)
{
    int32_t last_send = -1; /* place of the last sends */
    for (int32_t i = 0; i < x->n_old; i++) {
        clef_value *v = x->old[i];
        if (crosses_in(cut, v)) {
            receive(x, last_send);
            const int32_t before = x->n_order;
            send_until(x, i);
            last_send = x->n_order > before ? i : last_send;
            x->pending = v;
            continue;
        }
        if (x->pending && reads(v, x->pending))
            receive(x, last_send);
        x->order[x->n_order++] = v;
    }
    receive(x, last_send); /* an output */
    send_until(x, x->n_old);
}

/* The graph's list becomes the inputs of received values and then the new order. */
static clef_status replace_list(exchange *x, clef_error *err)
{
    clef_graph *g = x->g;
    int32_t n = 0;
    if (clef_graph_error(g, err))
        return g->error.status;
    for (int32_t i = 0; i < x->n_slots; i++)
        g->values[n++] = x->slots[i].input;
    memcpy(g->values + n, x->order, (size_t)x->n_order * sizeof *x->order);
    g->n_values = n + x->n_order;
    return clef__pass_drop(g, err); /* numbers the values, and counts readers */
}

static clef_status exchange_crossing(const clef_cut *cut, int32_t s, clef_graph *g, clef_error *err)
{
    const size_t n = (size_t)g->n_values + 1;
    exchange x = {.g = g, .peer = 1 - s, .n_old = g->n_values};
    x.old = calloc(n, sizeof *x.old);
    x.order = calloc(3 * n, sizeof *x.order);
    x.sends = calloc(n, sizeof *x.sends);
    x.last_use = calloc(n, sizeof *x.last_use);
    x.slots = calloc(n, sizeof *x.slots);
    clef_status status = CLEF_E_NOMEM;
    if (x.old && x.order && x.sends && x.last_use && x.slots) {
        memcpy(x.old, g->values, (n - 1) * sizeof *x.old);
        find_last_uses(&x);
        make_sends(&x);
        put_in_order(cut, &x);
        status = replace_list(&x, err);
    } else {
        clef__fail(err, CLEF_E_NOMEM, "no memory to split a graph of %" PRId32 " values", g->n_values);
    }
    free(x.old);
    free(x.order);
    free(x.sends);
    free(x.last_use);
    free(x.slots);
    return status;
}

clef_status clef__cut_exchanging(const clef_cut *cut, int32_t s, clef_graph **out, clef_error *err)
{
    clef_status status = clef__cut_stage(cut, s, out, err);
    if (!status)
        status = exchange_crossing(cut, s, *out, err);
    if (status) {
        clef_graph_destroy(*out);
        *out = NULL;
    }
    return status;
}
