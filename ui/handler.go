package ui

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
)

// Path is where the pages begin.
const Path = "/ui/"

// rowsWithin is how long the rows of a page may take together. A row looks at every pod of its workload, some 10 µs each.
const rowsWithin = 3 * time.Second

// handler answers requests; failed is told why a page could not be made.
type handler struct {
	caches Caches
	failed func(path string, err error)
	adding *additions
}

// NewHandler answers GET and HEAD at Path and below it. failed is told why a page could not be made.
func NewHandler(caches Caches, failed func(path string, err error)) http.Handler {
	h, mux := handler{caches, failed, newAdditions()}, http.NewServeMux()
	mux.HandleFunc("GET "+Path+"{$}", h.fleet)
	mux.HandleFunc("GET "+Path+"ns/{namespace}", h.namespace)
	mux.HandleFunc("GET "+Path+"ns/{namespace}/{kind}/{name}", h.workload)
	mux.HandleFunc("GET "+Path+"nodes", h.nodes)
	mux.HandleFunc("GET "+Path+"nodes/{node}", h.node)
	mux.HandleFunc("GET "+Path+"savings", h.savings)
	mux.HandleFunc("GET "+Path+"savings/{namespace}", h.savings)
	mux.HandleFunc("GET "+Path+"search", h.search)
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) { h.missing(w, r, "There is no such page.") })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		guard(w.Header())
		mux.ServeHTTP(w, r)
	})
}

func (h handler) fleet(w http.ResponseWriter, r *http.Request) {
	cluster, err := h.caches.All(r.Context(), "")
	if err != nil {
		h.fail(w, r, err)
		return
	}
	h.send(w, r, http.StatusOK, "fleet", fleetOf(cluster, pageOf(r)))
}

func (h handler) namespace(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("namespace")
	cluster, err := h.caches.All(r.Context(), name)
	switch {
	case err != nil:
		h.fail(w, r, err)
	case len(cluster.Policies)+len(cluster.Recommendations) == 0:
		h.missing(w, r, fmt.Sprintf("Namespace %s has no AttunePolicy and no AttuneRecommendation.", name))
	default:
		ctx, stop := context.WithTimeout(r.Context(), rowsWithin)
		defer stop()
		explained := func(rec *v1alpha1.AttuneRecommendation) Explained {
			if ctx.Err() != nil {
				return Explained{Problem: "There are too many pods for one page: the workload's own page has it."}
			}
			return h.caches.Explain(ctx, rec)
		}
		h.send(w, r, http.StatusOK, "namespace", namespaceOf(cluster, name, pageOf(r), explained))
	}
}

func (h handler) workload(w http.ResponseWriter, r *http.Request) {
	namespace, kind, name := r.PathValue("namespace"), v1alpha1.WorkloadKind(r.PathValue("kind")), r.PathValue("name")
	cluster, err := h.caches.All(r.Context(), namespace)
	if err != nil {
		h.fail(w, r, err)
		return
	}
	for i := range cluster.Recommendations {
		rec := &cluster.Recommendations[i]
		if rec.Spec.Workload.Kind == kind && rec.Spec.Workload.Name == name {
			explained, usage := h.caches.Explain(r.Context(), rec), map[string][]recommender.StepUsage{}
			if explained.Problem == "" {
				usage = h.caches.Usage(r.Context(), rec)
			}
			h.send(w, r, http.StatusOK, "workload", workloadOf(rec, explained, usage, h.caches.Beside(r.Context(), rec), cluster.At))
			return
		}
	}
	h.missing(w, r, fmt.Sprintf("%s/%s in namespace %s has no AttuneRecommendation.", kind, name, namespace))
}

// pageOf is the number of the page that is asked for; 1 where it is none.
func pageOf(r *http.Request) int {
	page, err := strconv.Atoi(r.URL.Query().Get("page"))
	if err != nil {
		return 1
	}
	return page
}

func (h handler) missing(w http.ResponseWriter, r *http.Request, sentence string) {
	h.send(w, r, http.StatusNotFound, "problem", sentence)
}

// fail says that a page could not be made. Why is in the log alone.
func (h handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	h.failed(r.URL.Path, err)
	sentence := "This page could not be made: the log of the operator says why."
	if errors.Is(err, errLarge) {
		sentence = "This page would be larger than 4 MiB: kubectl attune shows the same."
	}
	http.Error(w, sentence, http.StatusInternalServerError)
}

func (h handler) send(w http.ResponseWriter, r *http.Request, status int, name string, model any) {
	body, err := render(name, model)
	if err != nil {
		h.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // HEAD has none: the server leaves it out
}
