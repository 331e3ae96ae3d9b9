package workload

import (
	"encoding/json"

	"attune.io/attune/resize"
)

// What is not in the copy that a decision is made on: the object's name and versions, and the steps of each container.
const metadataBytes, stepsOfOne = 1 << 10, 2600

// otherBytes is about what the object takes without its open records. It is worked out once in a pass, and only where
// records could fill it.
func (d *decision) otherBytes(w world) int {
	if d.other == 0 {
		status := d.status
		status.Records = nil
		d.other = metadataBytes + jsonBytes(w.rec.Spec) + jsonBytes(status) + min(resize.StepsBytes, stepsOfOne*len(w.rec.Spec.Containers))
	}
	return d.other
}

func jsonBytes(of any) int {
	raw, err := json.Marshal(of)
	if err != nil {
		panic("what was read as JSON goes back into it: " + err.Error())
	}
	return len(raw)
}
