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

// Path is the root of all pages.
const Path = "/ui/"

// rowsWithin limits the time for all rows of a page. A row reads every pod of its workload, some 10 µs each.
const rowsWithin = 3 * time.Second

// handler answers requests. It calls failed with the error if it cannot render a page.
type handler struct {
	caches Caches
	failed func(path string, err error)
	adding *additions
}

// answer is a page: its HTTP status, the name of its template and the model.
type answer struct {
	status   int
	template string
	model    any
}

func found(template string, model any) (answer, error) {
	return answer{http.StatusOK, template, model}, nil
}

func missing(sentence string, args ...any) (answer, error) {
	return answer{http.StatusNotFound, "problem", fmt.Sprintf(sentence, args...)}, nil
}

// NewHandler returns a handler for GET and HEAD at Path and below. It calls failed with the error if it cannot
// render a page.
func NewHandler(caches Caches, failed func(path string, err error)) http.Handler {
	adding := &additions{places: make(chan struct{}, mostAdding), turn: make(chan struct{}, 1)}
	h, mux := handler{caches, failed, adding}, http.NewServeMux()
	for path, page := range map[string]func(*http.Request) (answer, error){
		Path + "{$}":                          h.within(h.fleet),
		Path + "ns/{namespace}":               h.within(h.namespace),
		Path + "ns/{namespace}/{kind}/{name}": h.within(h.workload),
		Path + "nodes":                        h.nodes,
		Path + "nodes/{node}":                 h.node,
		Path + "savings":                      h.savings,
		Path + "savings/{namespace}":          h.savings,
		Path + "search":                       h.within(h.search),
		"/":                                   func(*http.Request) (answer, error) { return missing("There is no such page.") },
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) { h.send(w, r, page) })
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		guard(w.Header())
		mux.ServeHTTP(w, r)
	})
}

// within calls page with the objects of the namespace in the path, or of all namespaces if the path has none.
func (h handler) within(page func(*http.Request, Cluster) (answer, error)) func(*http.Request) (answer, error) {
	return func(r *http.Request) (answer, error) {
		cluster, err := h.caches.All(r.Context(), r.PathValue("namespace"))
		if err != nil {
			return answer{}, err
		}
		return page(r, cluster)
	}
}

func (h handler) fleet(r *http.Request, cluster Cluster) (answer, error) {
	return found("fleet", fleetOf(cluster, pageOf(r)))
}

func (h handler) namespace(r *http.Request, cluster Cluster) (answer, error) {
	name := r.PathValue("namespace")
	if len(cluster.Policies)+len(cluster.Recommendations) == 0 {
		return missing("Namespace %s has no AttunePolicy and no AttuneRecommendation.", name)
	}
	ctx, stop := context.WithTimeout(r.Context(), rowsWithin)
	defer stop()
	explained := func(rec *v1alpha1.AttuneRecommendation) Explained {
		if ctx.Err() != nil {
			return Explained{Problem: "Too many pods for one page: see the page of the workload."}
		}
		return h.caches.Explain(ctx, rec, false)
	}
	return found("namespace", namespaceOf(cluster, name, pageOf(r), explained))
}

func (h handler) workload(r *http.Request, cluster Cluster) (answer, error) {
	namespace, kind, name := r.PathValue("namespace"), v1alpha1.WorkloadKind(r.PathValue("kind")), r.PathValue("name")
	for i := range cluster.Recommendations {
		rec := &cluster.Recommendations[i]
		if rec.Spec.Workload.Kind == kind && rec.Spec.Workload.Name == name {
			explained, usage := h.caches.Explain(r.Context(), rec, true), map[string][]recommender.StepUsage{}
			if explained.Problem == "" {
				usage = h.caches.Usage(r.Context(), rec)
			}
			return found("workload", workloadOf(rec, explained, usage, h.caches.Beside(r.Context(), rec), cluster.At))
		}
	}
	return missing("%s/%s in namespace %s has no AttuneRecommendation.", kind, name, namespace)
}

// pageOf returns the requested page number; 1 if it is missing or not a number.
func pageOf(r *http.Request) int {
	page, err := strconv.Atoi(r.URL.Query().Get("page"))
	if err != nil {
		return 1
	}
	return page
}

// send renders a page and sends it. If that fails, the cause goes only to the log, not to the viewer.
func (h handler) send(w http.ResponseWriter, r *http.Request, page func(*http.Request) (answer, error)) {
	a, err := page(r)
	var body []byte
	if err == nil {
		body, err = render(a.template, a.model)
	}
	if err != nil {
		h.failed(r.URL.Path, err)
		sentence := "The page could not be made: see the log of the operator."
		if errors.Is(err, errLarge) {
			sentence = "The page would be larger than 4 MiB: use kubectl attune, which shows the same."
		}
		http.Error(w, sentence, http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(a.status)
	_, _ = w.Write(body) // net/http drops the body for HEAD
}

func (h handler) nodes(r *http.Request) (answer, error) {
	all, err := h.caches.Nodes(r.Context())
	if err != nil {
		return answer{}, err
	}
	ctx, stop := context.WithTimeout(r.Context(), rowsWithin)
	defer stop()
	page, err := nodesOf(ctx, all, pageOf(r), h.caches.Node)
	if err != nil {
		return answer{}, err
	}
	return found("nodes", page)
}

func (h handler) node(r *http.Request) (answer, error) {
	all, err := h.caches.Nodes(r.Context())
	if err != nil {
		return answer{}, err
	}
	if all.Problem != "" {
		return missing("%s", all.Problem)
	}
	name := r.PathValue("node")
	switch n, known, err := h.caches.Node(r.Context(), name); {
	case err != nil:
		return answer{}, err
	case !known:
		return missing("Node %s is not known to the operator.", name)
	default:
		return found("node", nodeOf(n, all.At))
	}
}

// savings lets one request at a time compute. The request releases its slot before the page is sent, so a slow
// viewer does not block others.
func (h handler) savings(r *http.Request) (answer, error) {
	ctx, stop := context.WithTimeout(r.Context(), addedWithin)
	defer stop()
	namespace, page := r.PathValue("namespace"), pageOf(r)
	path := savingsPath(namespace)
	if last, known := h.adding.known(path, page); known {
		return found("savings", last)
	}
	if !h.adding.begin(ctx) {
		return late("Other savings are being computed: try again in a few seconds.")
	}
	defer h.adding.end()
	if last, known := h.adding.known(path, page); known { // another request rendered it in the meantime
		return found("savings", last)
	}
	cluster, err := h.caches.All(ctx, namespace)
	switch {
	case err != nil:
		return answer{}, err
	case namespace != "" && len(cluster.Recommendations) == 0:
		return missing("Namespace %s has no AttuneRecommendation.", namespace)
	}
	made, whole := savedOf(ctx, cluster, namespace, page, h.caches.Savings(ctx))
	if !whole {
		return late(fmt.Sprintf("The savings of %d workloads could not be computed in time: run kubectl attune savings -n NAMESPACE.", len(cluster.Recommendations)))
	}
	h.adding.keep(path, page, made)
	return found("savings", made)
}

func late(sentence string) (answer, error) {
	return answer{http.StatusServiceUnavailable, "late", sentence}, nil
}

func (h handler) search(r *http.Request, cluster Cluster) (answer, error) {
	return found("search", searchOf(cluster, r.URL.Query().Get("q"), pageOf(r)))
}
