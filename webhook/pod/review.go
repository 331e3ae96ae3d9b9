package pod

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/internal/quantity"
)

// review is the part of an AdmissionReview that is read.
type review struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Request    *request `json:"request"`
}

type request struct {
	UID         string                      `json:"uid"`
	Namespace   string                      `json:"namespace"`
	Operation   string                      `json:"operation"`
	SubResource string                      `json:"subResource"`
	Resource    metav1.GroupVersionResource `json:"resource"`
	DryRun      bool                        `json:"dryRun"`
	Object      Pod                         `json:"object"`
}

// Pod is the part of a pod that sizing reads; the rest is skipped while decoding.
type Pod struct {
	Metadata Metadata `json:"metadata"`
	Spec     Spec     `json:"spec"`
}

// Metadata at admission has neither a name nor, for certain, a namespace.
type Metadata struct {
	Labels          map[string]string       `json:"labels"`
	Annotations     map[string]string       `json:"annotations"`
	OwnerReferences []metav1.OwnerReference `json:"ownerReferences"`
}

// Spec is the part of a pod's spec that sizing reads.
type Spec struct {
	Containers     []Container `json:"containers"`
	InitContainers []Container `json:"initContainers"`
	// Resources at pod level; nil where the pod sets none.
	Resources *struct{}  `json:"resources"`
	Overhead  Quantities `json:"overhead"`
	OS        *struct {
		Name string `json:"name"`
	} `json:"os"`
}

// Container is the part of a container that sizing reads.
type Container struct {
	Name          string        `json:"name"`
	RestartPolicy string        `json:"restartPolicy"`
	Resources     *Requirements `json:"resources"`
	// ResizePolicy says which changes restart the container.
	ResizePolicy []struct {
		ResourceName  string `json:"resourceName"`
		RestartPolicy string `json:"restartPolicy"`
	} `json:"resizePolicy"`
}

// Requirements are a container's; nil lists are absent from the object.
type Requirements struct {
	Requests *Quantities `json:"requests"`
	Limits   *Quantities `json:"limits"`
}

func (r *Requirements) requests() *Quantities {
	if r == nil {
		return nil
	}
	return r.Requests
}

func (r *Requirements) limits() *Quantities {
	if r == nil {
		return nil
	}
	return r.Limits
}

// Quantities of the two resources that are sized; zero ones count as absent.
type Quantities struct {
	CPU    quantity.Bounded `json:"cpu"`
	Memory quantity.Bounded `json:"memory"`
}
