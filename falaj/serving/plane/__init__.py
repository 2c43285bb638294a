"""The serving plane: what runs on a host that answers predictions. It needs neither database nor control plane to answer."""
