package resize

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/internal/clip"
	"attune.io/attune/podview"
)

// Patch returns the plan as a strategic merge patch for the pod's resize subresource. It contains the pod's uid, so
// that it cannot reach another pod of the same name, and the resource version if the plan has one. It contains only
// changed amounts, so that other resources and containers stay unchanged. Equal plans give equal bytes.
func (p Plan) Patch() []byte {
	patch := podPatch{}
	patch.Metadata.UID, patch.Metadata.ResourceVersion = p.PodUID, p.Version
	for _, m := range p.Moves {
		c := containerPatch{Name: m.Container}
		amounts := podview.ToRequirements(m.newAmounts())
		c.Resources.Requests, c.Resources.Limits = amounts.Requests, amounts.Limits
		if m.Sidecar {
			patch.Spec.InitContainers = append(patch.Spec.InitContainers, c)
		} else {
			patch.Spec.Containers = append(patch.Spec.Containers, c)
		}
	}
	return clip.JSON(patch)
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
		Requests corev1.ResourceList `json:"requests,omitempty"`
		Limits   corev1.ResourceList `json:"limits,omitempty"`
	} `json:"resources"`
}
