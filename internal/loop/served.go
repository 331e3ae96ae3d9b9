package loop

import (
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Served lists what an API server serves of a group version; discovery clients do.
type Served interface {
	ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error)
}

// Serves returns whether the API server serves a resource of a group version. An error means that it does not answer.
func Serves(api Served, version schema.GroupVersion, is func(metav1.APIResource) bool) (bool, error) {
	list, err := api.ServerResourcesForGroupVersion(version.String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("asking the API server for %s: %w", version, err)
	}
	return slices.ContainsFunc(list.APIResources, is), nil
}
