package plane

import (
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// retryCreate is how soon a pod that was refused is tried again. Controllers back off from 5 ms to 1000 s per
// workload; what stands in the way here lasts, so that their later tries are what counts.
const retryCreate = 30 * time.Second

// refused: the API server said no, which is the workload's trouble and not the plane's.
func refused(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

// ignoreStale leaves out what the next look mends: an object that was changed or deleted in between.
func ignoreStale(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
