package sim

import (
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
	"attune.io/attune/test/sim/api"
)

// neighbours: what an authorizer refuses in one namespace stops the workloads of no other one.
type neighbours struct {
	deaf
	*scene
	// denied are the namespaces in which the operator was refused a resize.
	denied map[string]bool
	// noRights: the operator has lost its rights everywhere.
	noRights func() bool
}

func newNeighbours(s *scene, noRights func() bool) *neighbours {
	return &neighbours{scene: s, denied: map[string]bool{}, noRights: noRights}
}

func (n *neighbours) wrote(w api.Write) {
	namespace, _, _ := strings.Cut(w.Key, "/")
	if status, ok := w.Answer.(apierrors.APIStatus); ok && w.Verb == "patch/resize" && status.Status().Code == http.StatusForbidden {
		n.denied[namespace] = true
	}
}

func (n *neighbours) changed(e api.Event) {
	rec, ok := e.Object.(*v1alpha1.AttuneRecommendation)
	if !ok || e.Type == watch.Deleted || n.denied[rec.Namespace] || n.noRights() || n.excused() {
		return
	}
	c := meta.FindStatusCondition(rec.Status.Conditions, v1alpha1.ConditionResizeBlocked)
	if c != nil && c.Reason == resize.ReasonNoRights {
		n.violate("neighbours", key2(rec.Namespace, rec.Name).String(), "it waits for rights to resize (%s), and none of its namespace was ever refused", c.Message)
	}
}
