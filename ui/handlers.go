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
	namespace := r.PathValue("namespace")
	cluster, err := h.caches.All(r.Context(), namespace)
	switch {
	case err != nil:
		h.fail(w, r, err)
		return
	case namespace != "" && len(cluster.Recommendations) == 0:
		h.missing(w, r, fmt.Sprintf("Namespace %s has no AttuneRecommendation.", namespace))
		return
	}
	ctx, stop := context.WithTimeout(r.Context(), addedWithin)
	defer stop()
	page, whole := savedOf(ctx, cluster, namespace, pageOf(r), h.caches.Savings(ctx))
	if !whole {
		h.send(w, r, http.StatusServiceUnavailable, "late", fmt.Sprintf("%d workloads could not be added up in time: kubectl attune savings adds up a namespace with -n.", len(cluster.Recommendations)))
		return
	}
	h.send(w, r, http.StatusOK, "savings", page)
}

func (h handler) search(w http.ResponseWriter, r *http.Request) {
	cluster, err := h.caches.All(r.Context(), "")
	if err != nil {
		h.fail(w, r, err)
		return
	}
	h.send(w, r, http.StatusOK, "search", searchOf(cluster, r.URL.Query().Get("q"), pageOf(r)))
}
