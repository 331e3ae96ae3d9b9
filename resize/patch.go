package resize

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// Patch returns the plan as a strategic merge patch for the pod's resize subresource. It contains the pod's uid,
// so that it cannot reach another pod of the same name, and the resource version where the plan names one. It
// contains only amounts that change, so that other resources and containers are left alone. Equal plans give equal
// bytes.
func (p Plan) Patch() []byte {
	patch := podPatch{}
	patch.Metadata.UID, patch.Metadata.ResourceVersion = p.PodUID, p.Version
	for _, m := range p.Moves {
		c := containerPatch{Name: m.Container}
		for _, r := range recommender.Resources {
			c.Resources.Requests = changed(c.Resources.Requests, r, m.From[r].Request, m.To[r].Request)
			c.Resources.Limits = changed(c.Resources.Limits, r, m.From[r].Limit, m.To[r].Limit)
		}
		if m.Sidecar {
			patch.Spec.InitContainers = append(patch.Spec.InitContainers, c)
		} else {
			patch.Spec.Containers = append(patch.Spec.Containers, c)
		}
	}
	body, err := json.Marshal(patch)
	if err != nil {
		panic("strings and maps of strings always marshal: " + err.Error())
	}
	return body
}

// podPatch is the part of a pod that a patch may contain.
type podPatch struct {
	Metadata struct {
		UID             types.UID `json:"uid"`
		ResourceVersion string    `json:"resourceVersion,omitempty"`
	} `json:"metadata"`
	Spec struct {
		Containers     []containerPatch `json:"containers,omitempty"`
		InitContainers []containerPatch `json:"initContainers,omitempty"`
	} `json:"spec"`
}

// containerPatch is one container's part; absent lists are not written.
type containerPatch struct {
	Name      string `json:"name"`
	Resources struct {
		Requests map[string]string `json:"requests,omitempty"`
		Limits   map[string]string `json:"limits,omitempty"`
	} `json:"resources"`
}

// changed adds an amount to a list where it differs from the present one. 0 is never written: a resize cannot
// remove a request or a limit.
func changed(list map[string]string, r recommender.Resource, from, to recommender.Amount) map[string]string {
	if from == to || to <= 0 {
		return list
	}
	if list == nil {
		list = map[string]string{}
	}
	q := podview.Quantity(r, to)
	list[string(podview.NameOf(r))] = q.String()
	return list
}
