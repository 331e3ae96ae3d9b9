package ui

import (
	"context"
	"fmt"
	"net/http"
)

func (h handler) nodes(w http.ResponseWriter, r *http.Request) {
	all, err := h.caches.Nodes(r.Context())
	if err != nil {
		h.fail(w, r, err)
		return
	}
	ctx, stop := context.WithTimeout(r.Context(), rowsWithin)
	defer stop()
	var failed error
	page := nodesOf(all, pageOf(r), inTime(ctx, h.caches.Node, &failed))
	if failed != nil {
		h.fail(w, r, failed)
		return
	}
	h.send(w, r, http.StatusOK, "nodes", page)
}

func (h handler) node(w http.ResponseWriter, r *http.Request) {
	all, err := h.caches.Nodes(r.Context())
	if err != nil {
		h.fail(w, r, err)
		return
	}
	if all.Problem != "" {
		h.missing(w, r, all.Problem)
		return
	}
	name := r.PathValue("node")
	switch n, known, err := h.caches.Node(r.Context(), name); {
	case err != nil:
		h.fail(w, r, err)
	case !known:
		h.missing(w, r, unknownNode(name))
	default:
		h.send(w, r, http.StatusOK, "node", nodeOf(n, all.At))
	}
}

func (h handler) savings(w http.ResponseWriter, r *http.Request) {
	ctx, stop := context.WithTimeout(r.Context(), addedWithin)
	defer stop()
	status, name, model, err := h.saved(ctx, r.PathValue("namespace"), pageOf(r))
	if err != nil {
		h.fail(w, r, err)
		return
	}
	h.send(w, r, status, name, model)
}

// saved returns the model of a page of savings and the name of its template. The turn has ended when it is sent: a slow reader
// keeps nobody waiting.
func (h handler) saved(ctx context.Context, namespace string, page int) (status int, name string, model any, err error) {
	path := savingsPath(namespace)
	if last, known := h.adding.known(path, page); known {
		return http.StatusOK, "savings", last, nil
	}
	if !h.adding.begin(ctx) {
		return http.StatusServiceUnavailable, "late", "Other savings are being added up: try again in some seconds.", nil
	}
	defer h.adding.end()
	if last, known := h.adding.known(path, page); known { // it was made meanwhile
		return http.StatusOK, "savings", last, nil
	}
	cluster, err := h.caches.All(ctx, namespace)
	switch {
	case err != nil:
		return 0, "", nil, err
	case namespace != "" && len(cluster.Recommendations) == 0:
		return http.StatusNotFound, "problem", fmt.Sprintf("Namespace %s has no AttuneRecommendation.", namespace), nil
	}
	made, whole := savedOf(ctx, cluster, namespace, page, h.caches.Savings(ctx))
	if !whole {
		return http.StatusServiceUnavailable, "late", fmt.Sprintf("%d workloads could not be added up in time: kubectl attune savings adds up a namespace with -n.", len(cluster.Recommendations)), nil
	}
	h.adding.keep(path, page, made)
	return http.StatusOK, "savings", made, nil
}

func (h handler) search(w http.ResponseWriter, r *http.Request) {
	cluster, err := h.caches.All(r.Context(), "")
	if err != nil {
		h.fail(w, r, err)
		return
	}
	h.send(w, r, http.StatusOK, "search", searchOf(cluster, r.URL.Query().Get("q"), pageOf(r)))
}
